// Text as a string of JSON, for logs, traces and the canonical text of pipelines.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// In quotes, with quotes, backslashes and control characters escaped. The bytes are part of
/// digests of pipelines: they must not change.
std::string JsonText(std::string_view text);

}  // namespace millrace
