#include "server/source/declared_tensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/batch/layout/tensor_table.h"
#include "common/tensor/tensor_word.h"
#include "server/source/source.h"

namespace millrace {
namespace {

/// Names that batches, and pipelines, give themselves.
constexpr std::array<std::string_view, 4> kTakenNames = {kExampleIdTensor, "branch", "chunk",
                                                         "graph"};

/// How many bytes each text of a list has.
TensorSpec LengthsSpecOf(const std::string& texts) {
  TensorSpec spec;
  spec.path = TextLengthsOf(texts);
  spec.kind = TensorKind::kRaggedValues;
  spec.dtype = DType::kUint32;
  spec.dimension = spec.path;
  spec.splits = spec.path + "_splits";
  // No record, and so no text in it, is longer.
  spec.max = std::numeric_limits<std::int32_t>::max();
  return spec;
}

TensorSpec SpecOf(const DeclaredTensor& tensor) {
  TensorSpec spec;
  spec.path = tensor.name;
  spec.kind = tensor.type.ragged ? TensorKind::kRaggedValues : TensorKind::kDense;
  spec.dtype = tensor.type.dtype;
  spec.dimension = tensor.type.ragged ? tensor.name : "batch";
  spec.inner.assign(tensor.type.inner.begin(), tensor.type.inner.end());
  if (tensor.type.ragged) spec.splits = tensor.name + "_splits";
  if (IsInteger(spec.dtype)) {
    spec.min = DTypeMin(spec.dtype);
    spec.max = DTypeMax(spec.dtype);
  }
  spec.expansion = Expansion::kKeep;
  return spec;
}

}  // namespace

TensorSpec DeclaredIds(std::uint64_t examples) {
  TensorSpec spec;
  spec.path = kExampleIdTensor;
  spec.kind = TensorKind::kDense;
  spec.dimension = "batch";
  spec.max = examples == 0 ? 0 : examples - 1;
  spec.dtype = NarrowestDType(0, spec.max);
  return spec;
}

TensorSpec DeclaredSplits(const std::string& name) {
  TensorSpec spec;
  spec.path = name;
  spec.kind = TensorKind::kSplits;
  spec.dtype = DType::kUint32;
  spec.dimension = "batch+1";
  spec.max = std::numeric_limits<std::uint32_t>::max();
  return spec;
}

Status CheckDeclaredName(std::string_view name) {
  if (!IsTensorWord(name)) {
    return InvalidArgument(
        fmt::format("a name is one word of at most {} letters, digits and _ that begins with no "
                    "digit",
                    kMaxTensorName));
  }
  if (std::find(kTakenNames.begin(), kTakenNames.end(), name) != kTakenNames.end()) {
    return InvalidArgument("batches have something else of this name; choose another one");
  }
  return OkStatus();
}

Result<std::vector<std::size_t>> AppendDeclared(std::span<const DeclaredTensor> declared,
                                                std::vector<TensorSpec>& specs) {
  std::vector<std::size_t> numbers;
  std::set<std::string> paths;
  for (const TensorSpec& spec : specs) paths.insert(spec.path);
  const auto add = [&](TensorSpec spec, const std::string& of) -> Status {
    if (!paths.insert(spec.path).second) {
      return InvalidArgument(fmt::format("{}: there are two tensors {}", of, spec.path));
    }
    specs.push_back(std::move(spec));
    return OkStatus();
  };
  for (const DeclaredTensor& tensor : declared) {
    MILLRACE_RETURN_IF_ERROR(CheckTensorType(tensor.type).WithContext(tensor.name));
    TensorSpec spec = SpecOf(tensor);
    if (spec.row_values() > kMaxRowValues) {
      return InvalidArgument(fmt::format("{}: a row of a batch has at most {} values, {} has {}",
                                         tensor.name, kMaxRowValues, TensorTypeText(tensor.type),
                                         spec.row_values()));
    }
    const std::string splits = spec.splits;
    numbers.push_back(specs.size());
    MILLRACE_RETURN_IF_ERROR(add(std::move(spec), tensor.name));
    if (!splits.empty()) MILLRACE_RETURN_IF_ERROR(add(DeclaredSplits(splits), tensor.name));
    if (!tensor.texts) continue;
    TensorSpec lengths = LengthsSpecOf(tensor.name);
    const std::string splits_of_lengths = lengths.splits;
    MILLRACE_RETURN_IF_ERROR(add(std::move(lengths), tensor.name));
    MILLRACE_RETURN_IF_ERROR(add(DeclaredSplits(splits_of_lengths), tensor.name));
  }
  return numbers;
}

Result<DeclaredTensors> DeclareTensors(std::span<const DeclaredTensor> declared,
                                       std::uint64_t examples) {
  DeclaredTensors all;
  all.specs.push_back(DeclaredIds(examples));
  MILLRACE_ASSIGN_OR_RETURN(all.numbers, AppendDeclared(declared, all.specs));
  return all;
}

}  // namespace millrace
