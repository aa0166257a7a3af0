// Values of stage parameters: read from YAML with checks, and written as canonical text.
//
// Pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/plan/text/tree_text.h"
#include "server/source/stage.h"
#include "server/yaml/yaml_reader.h"

namespace millrace {

/// A checked value in its normal form, or the error if there is no value. Normal form: a single
/// integer becomes a list if a list is accepted; unordered lists are sorted and have no
/// repetitions.
struct ReadValue {
  ParamValue value;
  std::optional<ValueError> error;
  std::map<std::string, YamlMark> below = {};  // of a tree: where what stands below it was written
};
ReadValue ReadParamValue(const Parameter& parameter, const YamlNode& node);

/// Says which values a parameter accepts, for messages and help: "an integer from 1 to 1048576".
std::string DescribeExpected(const Parameter& parameter);

/// The value as one line of YAML that reads back as the same value. Strings of a fixed set stand
/// bare; all others are quoted as in JSON.
std::string FormatParamValue(const Parameter& parameter, const ParamValue& value);

}  // namespace millrace
