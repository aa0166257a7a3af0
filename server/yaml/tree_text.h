// Values of any shape, as one line of JSON: the value of a parameter whose keys and values a kind
// of dataset, or a plugin, knows better than the parser.
//
// Pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "server/yaml/yaml_reader.h"

namespace millrace {

/// The error in a value, and its place.
struct ValueError {
  YamlMark mark;
  std::string message;  // "expected …, got …"
};

/// A node as JSON.
struct TreeText {
  /// Keys sorted by their bytes, `, ` between values and `: ` after keys; numbers as FormatNumber
  /// writes them. Equal values have equal texts.
  std::string json;
  /// Where the keys of maps are written, by their paths: "a", "a.b". Keys within lists have no
  /// place.
  std::map<std::string, YamlMark> marks = {};
  std::optional<ValueError> error = {};  // a number that is not finite, or has more than 64 bits
};

/// Plain scalars are null, bools and numbers if they look like these, otherwise texts; quoted
/// scalars are texts.
TreeText WriteTree(const YamlNode& node);

}  // namespace millrace
