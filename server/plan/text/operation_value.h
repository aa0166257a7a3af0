// Names of tensors, and values of the parameters of operations: read from YAML with checks, and
// written as canonical text.
//
// Pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/operations/operation.h"
#include "common/tensor/tensor_word.h"
#include "server/plan/text/param_value.h"
#include "server/yaml/yaml_reader.h"

namespace millrace {

/// Whether the node can be the name of a tensor that something reads or delivers.
bool IsTensorName(const YamlNode& node);
/// The name in messages, which do not become long.
std::string ShownName(std::string_view name);

/// The parameter with this name, or nullptr.
const OperationParameter* FindOperationParameter(std::span<const OperationParameter> parameters,
                                                 std::string_view name);
/// The message about a key that is no parameter; `known` are those that are.
std::string UnknownParameter(std::string_view whole, std::string_view key,
                             const std::vector<std::string>& known);

/// A checked value, or the error if there is no value.
struct ReadOperation {
  OperationValue value;
  std::optional<ValueError> error;
};
ReadOperation ReadOperationValue(const OperationParameter& parameter, const YamlNode& node);

/// The value as one line of YAML that reads back as the same value: integers as they are, other
/// numbers with the fewest digits that read back as the same number, and with a point or an
/// exponent; texts of a fixed set bare, all others quoted as in JSON.
std::string FormatOperationValue(const OperationParameter& parameter, const OperationValue& value);

}  // namespace millrace
