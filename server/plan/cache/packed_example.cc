#include "server/plan/cache/packed_example.h"

#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/hash.h"
#include "common/batch/layout/tensor_table.h"
#include "server/source/source.h"

namespace millrace {
namespace {

/// Raised if the same example gets other bytes.
constexpr int kForm = 1;

std::uint32_t WordAt(std::span<const std::byte> bytes, std::size_t word) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + word * sizeof value, sizeof value);
  return value;
}

bool IsId(const TensorSpec& spec) {
  return spec.path == kExampleIdTensor && spec.kind == TensorKind::kDense && spec.inner.empty() &&
         spec.expansion == Expansion::kWiden;
}

std::uint64_t SplitAt(std::span<const std::byte> values, std::size_t value_bytes, std::size_t row) {
  std::uint64_t value = 0;
  std::memcpy(&value, values.data() + row * value_bytes, value_bytes);
  return value;
}

}  // namespace

ExamplePacker::ExamplePacker(const std::vector<TensorSpec>& tensors) {
  std::string text = fmt::format("examples {}\n", kForm);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& spec = tensors[i];
    const bool is_id = IsId(spec);
    text += fmt::format("{}: {}{} {}\n", spec.path,
                        is_id ? std::string_view("id") : DTypeName(spec.dtype),
                        fmt::format("[{}]", fmt::join(spec.inner, ", ")), spec.splits);
    if (spec.kind == TensorKind::kSplits) {
      splits_.push_back({i, DTypeSize(spec.dtype)});
    } else if (is_id) {
      id_ = i;
    } else {
      tensors_.push_back({i, spec.row_bytes(), kNotCut});
    }
  }
  for (Tensor& tensor : tensors_) {
    const std::string& splits = tensors[tensor.number].splits;
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      if (tensors[splits_[s].number].path == splits) tensor.cut_by = s;
    }
  }
  digest_ = Xxh3(text);
}

ExamplePtr ExamplePacker::PackDropped(DropReason reason) {
  const auto head = static_cast<std::uint32_t>(reason);
  return ExampleBytes::Copy(std::as_bytes(std::span(&head, 1)));
}

ExamplePtr ExamplePacker::Pack(const BatchWriter& writer, std::size_t row) const {
  struct Slice {
    std::uint64_t first;
    std::uint64_t rows;
  };
  std::vector<Slice> slices(splits_.size());
  for (std::size_t s = 0; s < splits_.size(); ++s) {
    const std::span<const std::byte> values = writer.values(splits_[s].number);
    const std::uint64_t first = SplitAt(values, splits_[s].value_bytes, row);
    slices[s] = {first, SplitAt(values, splits_[s].value_bytes, row + 1) - first};
  }
  const auto slice_of = [&](const Tensor& tensor) {
    return tensor.cut_by == kNotCut ? Slice{row, 1} : slices[tensor.cut_by];
  };
  std::size_t size = sizeof(std::uint32_t) * (1 + splits_.size());
  for (const Tensor& tensor : tensors_) size += slice_of(tensor).rows * tensor.row_bytes;
  auto example = std::make_shared<ExampleBytes>(size);
  std::byte* to = example->memory().data();
  const auto put = [&to](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    to += bytes;
  };
  const std::uint32_t kept = 0;
  put(&kept, sizeof kept);
  for (const Slice& slice : slices) {
    const auto rows = static_cast<std::uint32_t>(slice.rows);
    put(&rows, sizeof rows);
  }
  for (const Tensor& tensor : tensors_) {
    const Slice slice = slice_of(tensor);
    put(writer.values(tensor.number).data() + slice.first * tensor.row_bytes,
        slice.rows * tensor.row_bytes);
  }
  return example;
}

bool ExamplePacker::Unpack(std::span<const std::byte> bytes, ExampleId id,
                           BatchWriter& writer) const {
  const std::size_t head_bytes = sizeof(std::uint32_t) * (1 + splits_.size());
  if (bytes.size() < sizeof(std::uint32_t)) return false;
  if (const std::uint32_t reason = WordAt(bytes, 0); reason != 0) {
    if (bytes.size() != sizeof reason || reason >= kDropReasons) return false;
    writer.AddDropped(id, static_cast<DropReason>(reason));
    return true;
  }
  if (bytes.size() < head_bytes) return false;
  const auto rows_of = [&](const Tensor& tensor) -> std::size_t {
    return tensor.cut_by == kNotCut ? 1 : WordAt(bytes, 1 + tensor.cut_by);
  };
  std::size_t left = bytes.size() - head_bytes;
  for (const Tensor& tensor : tensors_) {
    const std::size_t rows = rows_of(tensor);
    if (rows > left / tensor.row_bytes) return false;
    left -= rows * tensor.row_bytes;
  }
  if (left != 0) return false;
  std::span<const std::byte> rest = bytes.subspan(head_bytes);
  for (const Tensor& tensor : tensors_) {
    const std::size_t own = rows_of(tensor) * tensor.row_bytes;
    writer.AppendPacked(tensor.number, rest.first(own));
    rest = rest.subspan(own);
  }
  if (id_) writer.AppendOne(*id_, static_cast<std::int64_t>(id.value()));
  writer.EndExample(id);
  return true;
}

}  // namespace millrace
