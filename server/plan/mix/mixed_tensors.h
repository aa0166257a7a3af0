// The tensors of a mix: the tensors that all branches deliver, with types that hold the values of
// each.
//
// Value types and pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"

namespace millrace {

/// The tensor that says which branch an example is of: numbers of rows of the table `branches`.
inline constexpr std::string_view kBranchTensor = "branch";

/// The tensors that a branch delivers.
struct BranchTensors {
  std::string name;
  std::vector<TensorSpec> tensors;
};

struct MixedTensors {
  /// The tensors of the first branch, in its order, widened; then kBranchTensor.
  std::vector<TensorSpec> tensors;
  /// For each branch, and each of `tensors` except the last: its number among the branch's tensors.
  std::vector<std::vector<std::size_t>> numbers;
};

/// Integers that are as narrow as the data allow get the narrowest type for the values of all
/// branches; other types become the common type of operations. InvalidArgument that names a tensor
/// and two branches if they do not deliver the same tensors. REQUIRES: there is a branch.
Result<MixedTensors> MixTensors(std::span<const BranchTensors> branches);

/// A tensor whose numbers refer to a table of `rows` rows. Its type holds each of them.
void WidenForRows(std::uint64_t rows, TensorSpec& tensor);

}  // namespace millrace
