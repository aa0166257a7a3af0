// Tensors whose types a user declares, as sources of records and of plugins have them.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "common/tensor/tensor_type.h"

namespace millrace {

/// A tensor of a source, with rows of the type.
struct DeclaredTensor {
  std::string name;
  TensorType type;
  bool texts = false;  // a row is a list of texts. The type is the type of its bytes, uint8[*]
};

/// InvalidArgument if a source cannot have a tensor of this name. The message has the rule.
Status CheckDeclaredName(std::string_view name);

/// The ids of a source's examples. `examples`: their number, which bounds them.
TensorSpec DeclaredIds(std::uint64_t examples);
/// The splits of a ragged tensor.
TensorSpec DeclaredSplits(const std::string& name);

/// The tensors of batches.
struct DeclaredTensors {
  /// First the ids of examples (kExampleIdTensor), then the declared tensors, in their order. A
  /// ragged tensor is followed by its splits, NAME_splits; the splits of lists of texts are
  /// followed by the lengths, NAME.lengths, which are ragged too.
  std::vector<TensorSpec> specs;
  std::vector<std::size_t> numbers;  // of the declared tensors, among the specs
  std::size_t example_id = 0;        // the number of the ids

  /// The number of the lengths of texts. REQUIRES: `declared` is the number of a list of texts
  /// among the declared tensors.
  std::size_t LengthsOf(std::size_t declared) const { return numbers[declared] + 2; }
};

/// Appends the tensors to the tensors of a source, each ragged one followed by its splits,
/// NAME_splits, and lists of texts by their lengths. Returns their numbers, without splits and
/// lengths. Values are delivered as they are, whatever the session's index type. InvalidArgument,
/// with the name, for a type that no tensor of a batch can have, and for two tensors of one name.
Result<std::vector<std::size_t>> AppendDeclared(std::span<const DeclaredTensor> declared,
                                                std::vector<TensorSpec>& specs);

/// `examples`: their number, which bounds their ids. Errors of AppendDeclared.
Result<DeclaredTensors> DeclareTensors(std::span<const DeclaredTensor> declared,
                                       std::uint64_t examples);

}  // namespace millrace
