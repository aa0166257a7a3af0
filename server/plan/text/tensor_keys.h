// Names of tensors and keys of their definitions, in pipelines and messages.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/yaml/yaml_reader.h"

namespace millrace {

/// Whether the node can be the name of a tensor that something reads or delivers.
bool IsTensorName(const YamlNode& node);
/// The name in messages, shortened if it is long.
std::string ShownName(std::string_view name);
/// The message about a key that is not a parameter; `known` are the parameters.
std::string UnknownParameter(std::string_view whole, std::string_view key,
                             const std::vector<std::string>& known);

}  // namespace millrace
