// A tensor's definition as written in a pipeline, read and checked as far as possible without the
// types of its inputs.
//
// Value types and pure functions. Errors are InvalidArgument with the place.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/operations/operation.h"
#include "common/operations/tensor_graph.h"
#include "server/plan/text/text_layer.h"
#include "server/yaml/yaml_reader.h"

namespace millrace {

/// The places of keys, for messages (TensorsPart::origins).
using TensorOrigins = std::map<std::string, std::string, std::less<>>;

/// A value, and where it was written.
struct WrittenValue {
  LayerName layer;
  YamlMark key;
  YamlPtr value;

  std::string place() const { return layer.At(value->mark); }
  Status Error(std::string_view message) const { return layer.Error(value->mark, message); }
};

/// The keys of a definition, from any layers.
struct WrittenDefinition {
  LayerName layer;
  YamlMark mark = {};  // of its name
  std::map<std::string, WrittenValue> keys = {};

  std::string place() const { return layer.At(mark); }
  Status Error(std::string_view message) const { return layer.Error(mark, message); }
};

/// Reads a definition. Parameters that have their defaults are left out. `yaml` is the text of the
/// file.
Result<TensorDefinition> ReadDefinition(const std::string& name, const WrittenDefinition& written,
                                        const OperationTable& operations, std::string_view yaml);

/// Checks that no required key is missing. REQUIRES: ReadDefinition gave the definition.
Status CheckRequired(const TensorDefinition& definition, const WrittenDefinition& written,
                     const OperationTable& operations);

/// The lines of a text, without their ends.
std::vector<std::string_view> LinesOf(std::string_view text);

/// Adds where the definition and its keys were written. `lines` are the lines of the file.
void AddOrigins(const TensorDefinition& definition, const WrittenDefinition& written,
                std::span<const std::string_view> lines, TensorOrigins& origins);

}  // namespace millrace
