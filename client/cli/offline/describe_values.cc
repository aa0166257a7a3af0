#include "client/cli/offline/describe_values.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/utf8.h"
#include "common/batch/layout/integer_visit.h"
#include "common/tensor/convert.h"
#include "common/tensor/tensor_word.h"
#include "server/files/dataset_files.h"

namespace millrace::cli {
namespace {

constexpr std::size_t kShownValues = 12;
constexpr std::size_t kShownBytes = 200;

template <class T>
T Load(const std::byte* data, std::size_t element) {
  T value;
  std::memcpy(&value, data + element * sizeof value, sizeof value);
  return value;
}

std::string ValueText(DType dtype, const std::byte* data, std::size_t element) {
  switch (dtype) {
    case DType::kBool:
      return Load<std::uint8_t>(data, element) == 0 ? "false" : "true";
    case DType::kFloat16:
      return fmt::format("{}", HalfToFloat(Load<std::uint16_t>(data, element)));
    case DType::kBFloat16:
      return fmt::format("{}", BFloat16ToFloat(Load<std::uint16_t>(data, element)));
    case DType::kFloat32:
      return fmt::format("{}", Load<float>(data, element));
    case DType::kFloat64:
      return fmt::format("{}", Load<double>(data, element));
    case DType::kUint64:
      return fmt::format("{}", Load<std::uint64_t>(data, element));
    default:
      return fmt::format("{}", internal::LoadValue(data, dtype, element));
  }
}

/// Bytes as text in quotes, if they are text.
std::optional<std::string> AsText(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 ? c != 0x7f : c == '\n' || c == '\t' || c == '\r';
  });
  if (text.empty() || !plain || !IsUtf8(text)) return std::nullopt;
  if (text.size() <= kShownBytes) return fmt::format("\"{}\"", Escaped(text));
  text = text.substr(0, kShownBytes);
  while (!IsUtf8(text)) text.remove_suffix(1);
  return fmt::format("\"{}\" …", Escaped(text));
}

/// The rows of a tensor that an example has.
std::pair<std::uint64_t, std::uint64_t> RowsOf(const PackedBatch& batch, const TensorSpec& tensor,
                                               std::size_t row) {
  const std::optional<std::size_t> splits =
      tensor.splits.empty() ? std::nullopt : batch.Find(tensor.splits);
  if (!splits) return {row, row + 1};
  return {static_cast<std::uint64_t>(batch.ValueAt(*splits, row)),
          static_cast<std::uint64_t>(batch.ValueAt(*splits, row + 1))};
}

std::string ValuesText(const TensorSpec& tensor, std::span<const std::byte> bytes) {
  const bool is_bytes =
      tensor.dtype == DType::kUint8 && tensor.dimension != "nodes" && tensor.dimension != "edges";
  if (is_bytes && (!tensor.splits.empty() || !tensor.inner.empty())) {
    if (auto text = AsText(bytes)) return *std::move(text);
  }
  const std::size_t count = bytes.size() / DTypeSize(tensor.dtype);
  if (count == 1 && tensor.splits.empty() && tensor.inner.empty()) {
    return ValueText(tensor.dtype, bytes.data(), 0);
  }
  std::vector<std::string> values;
  for (std::size_t i = 0; i < std::min(count, kShownValues); ++i) {
    values.push_back(ValueText(tensor.dtype, bytes.data(), i));
  }
  if (count > kShownValues) values.emplace_back("…");
  return fmt::format("[{}]", fmt::join(values, ", "));
}

/// The texts of a row, which has these lengths: `["a", "", "b"]`. One that is no text is shown as
/// its bytes are.
std::string TextsText(const PackedBatch& batch, std::size_t lengths, std::size_t row,
                      const TensorSpec& tensor, std::span<const std::byte> bytes) {
  const auto [begin, end] = RowsOf(batch, batch.tensors()[lengths].spec, row);
  std::vector<std::string> texts;
  for (std::uint64_t i = begin; i < std::min(end, begin + kShownValues); ++i) {
    const auto length = static_cast<std::uint64_t>(batch.ValueAt(lengths, i));
    const auto text = bytes.first(std::min<std::uint64_t>(length, bytes.size()));
    bytes = bytes.subspan(text.size());
    texts.push_back(text.empty() ? "\"\"" : ValuesText(tensor, text));
  }
  if (end - begin > kShownValues) texts.emplace_back("…");
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

/// "float32[7, 80]": the type with the extents of this example.
std::string TypeText(const TensorSpec& tensor, std::uint64_t rows) {
  std::vector<std::string> extents;
  if (!tensor.splits.empty()) extents.push_back(std::to_string(rows));
  for (const std::uint64_t extent : tensor.inner) extents.push_back(std::to_string(extent));
  if (extents.empty()) return std::string(DTypeName(tensor.dtype));
  return fmt::format("{}[{}]", DTypeName(tensor.dtype), fmt::join(extents, ", "));
}

}  // namespace

std::string DescribeValues(const PackedBatch& batch, std::size_t row) {
  std::string text;
  for (std::size_t t = 0; t < batch.tensors().size(); ++t) {
    const TensorSpec& tensor = batch.tensors()[t].spec;
    // Rows of graphs are those of examples, unless several share one.
    const bool of_graph =
        tensor.of_graphs() || tensor.dimension == "nodes" || tensor.dimension == "edges";
    if (tensor.kind == TensorKind::kSplits || (batch.info().expand.merged && of_graph)) continue;
    const auto [begin, end] = RowsOf(batch, tensor, row);
    const auto bytes = batch.tensor_bytes(t).subspan(begin * tensor.row_bytes(),
                                                     (end - begin) * tensor.row_bytes());
    const auto lengths = batch.Find(TextLengthsOf(tensor.path));
    text += fmt::format("  {:<24} {:<18} {}\n", tensor.path, TypeText(tensor, end - begin),
                        lengths && !tensor.splits.empty()
                            ? TextsText(batch, *lengths, row, tensor, bytes)
                            : ValuesText(tensor, bytes));
  }
  return text;
}

}  // namespace millrace::cli
