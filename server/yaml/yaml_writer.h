// Text as YAML, by yaml-cpp's emitter: every place that writes YAML for a person or a file.
//
// Canonical text of pipelines is no part of this: its bytes are in digests (see canonical.h).
//
// Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace millrace {

/// `text` as a scalar that YAML reads back as the same text, anywhere a scalar may stand: plain
/// where that is possible, in quotes otherwise. Bytes that are no UTF-8 are replaced.
std::string YamlText(std::string_view text);

/// `texts` as a list in one line, each in quotes: ["a", "b"].
std::string YamlList(std::span<const std::string> texts);

}  // namespace millrace
