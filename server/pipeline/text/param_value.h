// Values of stage parameters: from YAML with their checks, and as canonical text.
//
// Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/pipeline/graph/stage.h"
#include "server/pipeline/text/yaml_reader.h"

namespace millrace {

/// What is wrong with a value, and where.
struct ValueError {
  YamlMark mark;
  std::string message;  // "expected …, got …"
};

/// A checked value in its normal form (a single integer where a list may stand becomes a list;
/// unordered lists are sorted, without repetition), or why there is none.
struct ReadValue {
  ParamValue value;
  std::optional<ValueError> error;
};
ReadValue ReadParamValue(const Parameter& parameter, const YamlNode& node);

/// What a parameter accepts, for messages and help: "an integer from 1 to 1048576".
std::string DescribeExpected(const Parameter& parameter);

/// The value as one line of YAML that reads back as the same value; strings of a fixed set bare,
/// all others quoted as in JSON.
std::string FormatParamValue(const Parameter& parameter, const ParamValue& value);

/// The candidate that a mistyped word most likely means; empty where none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

/// " (did you mean x?)", or nothing.
std::string Suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace millrace
