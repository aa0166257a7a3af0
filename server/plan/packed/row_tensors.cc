#include "server/plan/packed/row_tensors.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "common/batch/layout/tensor_table.h"
#include "common/operations/pack_names.h"
#include "common/tensor/tensor_word.h"
#include "server/plan/order/cut_tensors.h"
#include "server/source/declared_tensors.h"

namespace millrace {
namespace {

constexpr std::string_view kPack = "pack";

/// Whether a tensor's name could be taken for that of one which packing makes.
bool IsPackName(const TensorSpec& tensor) {
  const std::string name = DottedName(tensor.path);
  return name == kPack || name.starts_with("pack.");
}

/// Why rows cannot be filled with a tensor; empty if they can.
std::string WhyNotPacked(const Source& source, const TensorSpec& tensor) {
  if (std::string why = WhyNotCut(source, tensor); !why.empty()) return why;
  if (!source.expand().merged) return {};
  return "a batch of this source is one graph, so it has no documents (`closure: {merge: false}`)";
}

Status CheckPacked(const Source& source, std::string_view key, const std::string& name) {
  const std::optional<std::size_t> tensor = FindByDottedName(source, name);
  if (!tensor) {
    return InvalidArgument(fmt::format("{}: the source '{}' has no tensor '{}'; {}", key,
                                       source.name(), name, TensorsToCut(source)));
  }
  const std::string why = WhyNotPacked(source, source.tensors()[*tensor]);
  if (why.empty()) return OkStatus();
  return InvalidArgument(fmt::format("{}: {}; {}", key, why, TensorsToCut(source)));
}

/// The elements of `pack.before` or `pack.after` in the type of T.
Result<std::vector<std::byte>> Encode(std::string_view key, const std::vector<std::int64_t>& values,
                                      TensorSpec& spec) {
  std::vector<std::byte> bytes;
  if (values.empty()) return bytes;
  if (!IsInteger(spec.dtype) || !spec.inner.empty()) {
    return InvalidArgument(
        fmt::format("{}: expected nothing, because the elements of {} are not single integers", key,
                    spec.path));
  }
  for (const std::int64_t value : values) {
    const bool above = value >= 0 && static_cast<std::uint64_t>(value) > DTypeMax(spec.dtype);
    if (value < DTypeMin(spec.dtype) || above) {
      return InvalidArgument(fmt::format("{}: expected values of {}, {} to {}, as {} has, got {}",
                                         key, DTypeName(spec.dtype), DTypeMin(spec.dtype),
                                         DTypeMax(spec.dtype), spec.path, value));
    }
    spec.min = std::min(spec.min, value);
    if (value > 0) spec.max = std::max(spec.max, static_cast<std::uint64_t>(value));
    // The first bytes of a wide integer are those of the narrow one.
    const std::size_t at = bytes.size();
    bytes.resize(at + DTypeSize(spec.dtype));
    std::memcpy(bytes.data() + at, &value, DTypeSize(spec.dtype));
  }
  return bytes;
}

/// A tensor with an integer for each piece of a row.
TensorSpec PieceSpec(std::string_view path, DType dtype, std::int64_t min, std::uint64_t max) {
  TensorSpec spec;
  spec.path = std::string(path);
  spec.kind = TensorKind::kRaggedValues;
  spec.dtype = dtype;
  spec.dimension = std::string(kPackLengths);
  spec.splits = std::string(kPackLengths) + "_splits";
  spec.min = min;
  spec.max = max;
  return spec;
}

TensorSpec WidePieceSpec(std::string_view path, std::int64_t min, std::uint64_t max) {
  TensorSpec spec = PieceSpec(path, DType::kInt64, min, max);
  spec.expansion = Expansion::kKeep;
  return spec;
}

}  // namespace

Status CheckPacks(const Source& source, const PackPart& part) {
  if (part.tensor.empty()) return OkStatus();
  for (const TensorSpec& tensor : source.tensors()) {
    if (!IsPackName(tensor)) continue;
    return InvalidArgument(fmt::format(
        "pack: the source '{}' has a tensor '{}' already, and tensors of rows have such "
        "names",
        source.name(), tensor.path));
  }
  MILLRACE_RETURN_IF_ERROR(CheckPacked(source, "pack.tensor", part.tensor));
  for (const std::string& name : part.with) {
    MILLRACE_RETURN_IF_ERROR(CheckPacked(source, "pack.with", name));
  }
  if (!source.facts().varies) return OkStatus();
  return InvalidArgument(
      fmt::format("pack: the source '{}' makes its examples anew in every epoch, so their lengths "
                  "are not known "
                  "before; expected a source whose examples stay as they are",
                  source.name()));
}

Result<RowTensors> RowTensors::Make(const Source& source, const PackPart& part,
                                    const PackNeeds& needs, std::uint64_t rows) {
  MILLRACE_RETURN_IF_ERROR(CheckPacks(source, part));
  RowTensors made;
  std::vector<TensorSpec>& specs = made.specs;
  if (FindTensor(source.tensors(), kExampleIdTensor)) {
    made.example_id = specs.size();
    specs.push_back(DeclaredIds(rows));
  }
  std::vector<std::string> names = {part.tensor};
  names.insert(names.end(), part.with.begin(), part.with.end());
  for (const std::string& name : names) {
    const std::size_t from = *FindByDottedName(source, name);
    const TensorSpec& spec = source.tensors()[from];
    made.copied.push_back({from, *FindTensor(source.tensors(), spec.splits), specs.size()});
    specs.push_back(spec);
    if (!FindTensor(specs, spec.splits)) specs.push_back(DeclaredSplits(spec.splits));
  }
  TensorSpec& filled = specs[made.copied.front().to];
  MILLRACE_ASSIGN_OR_RETURN(made.before, Encode("pack.before", part.before, filled));
  MILLRACE_ASSIGN_OR_RETURN(made.after, Encode("pack.after", part.after, filled));
  made.lengths = specs.size();
  specs.push_back(PieceSpec(kPackLengths, NarrowestDType(0, part.size), 0, part.size));
  specs.push_back(DeclaredSplits(specs.back().splits));
  const auto add = [&](bool is_wanted, TensorSpec spec) -> std::optional<std::size_t> {
    if (!is_wanted) return std::nullopt;
    specs.push_back(std::move(spec));
    return specs.size() - 1;
  };
  constexpr std::uint64_t kMost = (std::uint64_t{1} << 63) - 1;
  made.documents = add(needs.documents, WidePieceSpec(kPackDocuments, 0, kMost));
  made.begins = add(needs.begins, WidePieceSpec(kPackBegins, 0, kMost));
  const TensorSpec tensor = made.tensor();
  if (needs.next && !(IsInteger(tensor.dtype) && tensor.inner.empty())) {
    return InvalidArgument(fmt::format(
        "pack.tensor: expected single integers as elements, because something reads pack.label; "
        "got those of {}",
        tensor.path));
  }
  made.next = add(needs.next, WidePieceSpec(kPackNext, std::min(tensor.min, std::int64_t{kNoLabel}),
                                             std::min(tensor.max, kMost)));
  return made;
}

std::uint64_t RowTensors::MaxRowBytes(std::uint64_t size) const {
  std::uint64_t bytes = 0;
  for (const TensorSpec& spec : specs) {
    if (spec.kind == TensorKind::kSplits) continue;
    std::uint64_t of_tensor = spec.row_bytes();
    if (!spec.splits.empty() && __builtin_mul_overflow(of_tensor, size, &of_tensor)) return 0;
    if (__builtin_add_overflow(bytes, of_tensor, &bytes)) return 0;
  }
  return bytes;
}

}  // namespace millrace
