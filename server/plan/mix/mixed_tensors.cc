#include "server/plan/mix/mixed_tensors.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/batch/layout/tensor_table.h"
#include "common/operations/after_steps.h"

namespace millrace {
namespace {

/// "uint8[batch, 80]", for messages.
std::string ShownType(const TensorSpec& tensor) {
  std::string text = fmt::format("{}[{}", DTypeName(tensor.dtype), tensor.dimension);
  for (const std::uint64_t extent : tensor.inner) text += fmt::format(", {}", extent);
  return text + "]";
}

/// Whether two branches' tensors are the same but for the type of their values.
bool SameForm(const TensorSpec& a, const TensorSpec& b) {
  return a.kind == b.kind && a.dimension == b.dimension && a.inner == b.inner &&
         a.splits == b.splits && a.node_splits == b.node_splits && a.expansion == b.expansion;
}

void Widen(const TensorSpec& other, TensorSpec& tensor) {
  if (tensor.expansion != Expansion::kKeep) {
    tensor.min = std::min(tensor.min, other.min);
    tensor.max = std::max(tensor.max, other.max);
    if (tensor.dtype != other.dtype) tensor.dtype = NarrowestDType(tensor.min, tensor.max);
    return;
  }
  if (tensor.dtype == other.dtype) return;
  tensor.dtype = CommonType(tensor.dtype, other.dtype);
  tensor.min = IsInteger(tensor.dtype) ? DTypeMin(tensor.dtype) : 0;
  tensor.max = IsInteger(tensor.dtype) ? DTypeMax(tensor.dtype) : 0;
}

Status Missing(const std::string& path, const std::string& has, const std::string& lacks) {
  return InvalidArgument(fmt::format(
      "branches: {0} comes to a tensor {2}, and {1} does not: expected the same tensors from all "
      "branches; define it in branches.{1}.tensors, or name in output what is wanted",
      has, lacks, path));
}

}  // namespace

void WidenForRows(std::uint64_t rows, TensorSpec& tensor) {
  tensor.max = std::max<std::uint64_t>(rows, 1) - 1;
  tensor.dtype = NarrowestDType(tensor.min, tensor.max);
}

Result<MixedTensors> MixTensors(std::span<const BranchTensors> branches) {
  const BranchTensors& first = branches.front();
  MixedTensors mixed;
  mixed.tensors = first.tensors;
  for (const BranchTensors& branch : branches) {
    std::vector<std::size_t> numbers;
    for (TensorSpec& tensor : mixed.tensors) {
      const auto found = FindTensor(branch.tensors, tensor.path);
      if (!found) return Missing(tensor.path, first.name, branch.name);
      const TensorSpec& other = branch.tensors[*found];
      if (!SameForm(tensor, other)) {
        return InvalidArgument(
            fmt::format("branches: the tensor {} is {} in {}, and {} in {}: expected the same "
                        "dimensions in all branches",
                        tensor.path, ShownType(tensor), first.name, ShownType(other), branch.name));
      }
      Widen(other, tensor);
      numbers.push_back(*found);
    }
    for (const TensorSpec& tensor : branch.tensors) {
      if (FindTensor(mixed.tensors, tensor.path)) continue;
      return Missing(tensor.path, branch.name, first.name);
    }
    mixed.numbers.push_back(std::move(numbers));
  }
  if (FindTensor(mixed.tensors, kBranchTensor)) {
    return InvalidArgument(fmt::format(
        "branches: they come to a tensor {0}, and the mix delivers another {0}; choose another "
        "name",
        kBranchTensor));
  }
  TensorSpec which;
  which.path = kBranchTensor;
  which.dimension = "batch";
  which.max = branches.size() - 1;
  which.dtype = NarrowestDType(0, which.max);
  mixed.tensors.push_back(std::move(which));
  return mixed;
}

}  // namespace millrace
