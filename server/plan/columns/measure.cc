#include "server/plan/columns/measure.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "common/batch/batch.h"
#include "common/tensor/tensor_word.h"
#include "server/source/measured_values.h"

namespace millrace {
namespace {

/// How many examples are built at once.
constexpr std::uint64_t kAtOnce = 64;

/// The type of the column of a tensor that has one number an example; empty if it has not.
std::optional<MeasuredType> ScalarType(const TensorSpec& tensor) {
  const bool scalar = tensor.kind == TensorKind::kDense && tensor.dimension == "batch" &&
                      tensor.inner.empty() && tensor.expansion == Expansion::kKeep;
  if (!scalar || tensor.path == kExampleIdTensor) return std::nullopt;
  if (tensor.dtype == DType::kInt64) return MeasuredType::kInt64;
  if (tensor.dtype == DType::kFloat32) return MeasuredType::kFloat32;
  return std::nullopt;
}

/// Whether an error of building an example says something about the example: its data are not as
/// they should be, or a user's code fails with it.
bool IsOfExample(const Status& status) {
  return status.code() == StatusCode::kDataLoss || status.code() == StatusCode::kAborted;
}

}  // namespace

std::vector<MeasurableColumn> MeasurableColumns(const Source& source) {
  if (source.facts().varies) return {};
  const std::vector<std::string> own = ColumnNames(source);
  std::set<std::string, std::less<>> names(own.begin(), own.end());
  std::vector<MeasurableColumn> columns;
  const auto add = [&](std::string name, MeasuredType type, const std::string& path) {
    const std::vector<TensorSpec>& tensors = source.tensors();
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const TensorSpec& tensor) { return tensor.path == path; });
    if (found == tensors.end() || !names.insert(name).second) return;
    columns.push_back({std::move(name), type, static_cast<std::size_t>(found - tensors.begin())});
  };
  for (const TensorSpec& tensor : source.tensors()) {
    if (tensor.splits.empty()) continue;
    if (tensor.dimension == "nodes" || tensor.dimension == "edges") {
      add(tensor.dimension, MeasuredType::kCount, tensor.splits);
    }
  }
  for (const TensorSpec& tensor : source.tensors()) {
    if (tensor.splits.empty()) continue;
    add(DottedName(tensor.path) + ".length", MeasuredType::kCount, tensor.splits);
  }
  for (const TensorSpec& tensor : source.tensors()) {
    const std::optional<MeasuredType> type = ScalarType(tensor);
    if (type) add(DottedName(tensor.path), *type, tensor.path);
  }
  return columns;
}

Result<Measurer> Measurer::Make(const Source& source, std::vector<MeasurableColumn> columns,
                                std::vector<std::uint64_t> excluded) {
  auto pool = std::make_unique<BufferPool>();
  MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer,
                            BatchWriter::Create(source.tensors(), source.expand(), *pool));
  return Measurer(source, std::move(columns), std::move(excluded), std::move(pool),
                  std::move(writer));
}

Measurer::Measurer(const Source& source, std::vector<MeasurableColumn> columns,
                   std::vector<std::uint64_t> excluded, std::unique_ptr<BufferPool> pool,
                   BatchWriter writer)
    : source_(&source),
      columns_(std::move(columns)),
      excluded_(std::move(excluded)),
      pool_(std::move(pool)),
      writer_(std::move(writer)),
      reader_(source.NewReader()) {}

std::uint64_t Measurer::ValueOf(const PackedBatch& batch, std::size_t tensor, MeasuredType type,
                                std::size_t row) {
  switch (type) {
    case MeasuredType::kCount:
      return static_cast<std::uint64_t>(batch.ValueAt(tensor, row + 1) -
                                        batch.ValueAt(tensor, row));
    case MeasuredType::kInt64:
      return static_cast<std::uint64_t>(batch.ValueAt(tensor, row));
    case MeasuredType::kFloat32: {
      std::uint32_t bits = 0;
      std::memcpy(&bits, batch.tensor_bytes(tensor).data() + row * sizeof(bits), sizeof(bits));
      return bits;
    }
  }
  return 0;
}

bool Measurer::IsExcluded(ExampleId id) const {
  return std::binary_search(excluded_.begin(), excluded_.end(), id.value());
}

Status Measurer::Measure(ExampleId first, std::uint64_t count, std::vector<WideValues>& values) {
  values.clear();
  for (const MeasurableColumn& column : columns_) {
    values.push_back(WideValues::None(column.type, count));
  }
  std::vector<ExampleId> ids;
  for (std::uint64_t begin = 0; begin < count; begin += kAtOnce) {
    ids.clear();
    for (std::uint64_t i = begin; i < std::min(count, begin + kAtOnce); ++i) {
      ids.emplace_back(first.value() + i);
    }
    const Status measured = MeasureTogether(ids, first, values);
    if (measured.ok()) continue;
    const bool some_excluded =
        std::any_of(ids.begin(), ids.end(), [&](ExampleId id) { return IsExcluded(id); });
    if (!some_excluded) return measured;
    for (const ExampleId id : ids) {
      const Status alone = MeasureTogether({&id, 1}, first, values);
      if (!alone.ok() && !(IsExcluded(id) && IsOfExample(alone))) return alone;
    }
  }
  return OkStatus();
}

Status Measurer::MeasureTogether(std::span<const ExampleId> ids, ExampleId first,
                                 std::vector<WideValues>& values) {
  writer_.Begin({}, 0, 0, static_cast<std::uint32_t>(ids.size()));
  const Status read = reader_->Append(ids, writer_);
  MILLRACE_RETURN_IF_ERROR(source_->CheckIntact());
  MILLRACE_RETURN_IF_ERROR(read);
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const PackedBatch> batch, writer_.Seal());
  const std::vector<ExampleId>& built = batch->info().example_ids;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::size_t tensor = *batch->Find(source_->tensors()[columns_[c].tensor].path);
    for (std::size_t row = 0; row < built.size(); ++row) {
      values[c].Set(built[row].value() - first.value(),
                    ValueOf(*batch, tensor, columns_[c].type, row));
    }
  }
  return OkStatus();
}

}  // namespace millrace
