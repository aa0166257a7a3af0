// Writes text as YAML with yaml-cpp's emitter. All code that writes YAML for people or files uses
// it.
//
// It does not write the canonical text of pipelines, whose bytes are in digests (see canonical.h).
//
// Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace millrace {

/// `text` as a scalar that YAML reads back as the same text, wherever a scalar may be written. It
/// has no quotes if that is possible. Bytes that are not UTF-8 are replaced.
std::string YamlText(std::string_view text);

/// `texts` as a list on one line, with each text in quotes: ["a", "b"].
std::string YamlList(std::span<const std::string> texts);

}  // namespace millrace
