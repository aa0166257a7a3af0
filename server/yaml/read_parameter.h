// Values of parameters, read from YAML and checked.
//
// Pure function.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/parameters/parameter.h"
#include "server/yaml/tree_text.h"
#include "server/yaml/yaml_reader.h"

namespace millrace {

/// A checked value in its normal form, or the error if there is no value. Normal form: unordered
/// lists are sorted and have no repetitions. Parameter::check is left to the caller.
struct ReadValue {
  ParamValue value;
  std::optional<ValueError> error;
  std::map<std::string, YamlMark> below = {};  // of a tree: where the values below it were written
};
ReadValue ReadParameter(const Parameter& parameter, const YamlNode& node);

}  // namespace millrace
