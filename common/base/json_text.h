// Writes text as a JSON string, for logs, traces and the canonical text of pipelines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// `text` in quotes, with quotes, backslashes and control characters escaped. The digests of
/// pipelines depend on these bytes, so they must not change.
std::string JsonText(std::string_view text);
/// A JSON list of texts, with `, ` between them.
std::string JsonList(const std::vector<std::string>& texts);

}  // namespace millrace
