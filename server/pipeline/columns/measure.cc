#include "server/pipeline/columns/measure.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "common/batch/batch.h"
#include "common/tensor/tensor_word.h"
#include "server/pipeline/columns/measured_values.h"

namespace millrace {
namespace {

/// How many examples are built at once.
constexpr std::uint64_t kAtOnce = 64;

}  // namespace

std::vector<MeasurableColumn> MeasurableColumns(const Source& source) {
  if (source.varies()) return {};
  std::set<std::string, std::less<>> names(source.columns().begin(), source.columns().end());
  std::vector<MeasurableColumn> columns;
  const auto add = [&](std::string name, const std::string& splits) {
    const std::vector<TensorSpec>& tensors = source.tensors();
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TensorSpec& tensor) {
      return tensor.path == splits;
    });
    if (found == tensors.end() || !names.insert(name).second) return;
    columns.push_back({std::move(name), static_cast<std::size_t>(found - tensors.begin())});
  };
  for (const TensorSpec& tensor : source.tensors()) {
    if (tensor.splits.empty()) continue;
    if (tensor.dimension == "nodes" || tensor.dimension == "edges") {
      add(tensor.dimension, tensor.splits);
    }
  }
  for (const TensorSpec& tensor : source.tensors()) {
    if (!tensor.splits.empty()) add(DottedName(tensor.path) + ".length", tensor.splits);
  }
  return columns;
}

Result<Measurer> Measurer::Make(const Source& source, std::vector<MeasurableColumn> columns) {
  auto pool = std::make_unique<BufferPool>();
  MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer,
                            BatchWriter::Create(source.tensors(), source.expand(), *pool));
  return Measurer(source, std::move(columns), std::move(pool), std::move(writer));
}

Measurer::Measurer(const Source& source, std::vector<MeasurableColumn> columns,
                   std::unique_ptr<BufferPool> pool, BatchWriter writer)
    : source_(&source),
      columns_(std::move(columns)),
      pool_(std::move(pool)),
      writer_(std::move(writer)),
      reader_(source.NewReader()) {}

Status Measurer::Measure(ExampleId first, std::uint64_t count,
                         std::vector<std::vector<std::uint64_t>>& values) {
  values.assign(columns_.size(), std::vector<std::uint64_t>(count, MeasuredValues::kNone));
  std::vector<ExampleId> ids;
  for (std::uint64_t begin = 0; begin < count; begin += kAtOnce) {
    ids.clear();
    for (std::uint64_t i = begin; i < std::min(count, begin + kAtOnce); ++i) {
      ids.emplace_back(first.value() + i);
    }
    writer_.Begin({}, 0, 0, static_cast<std::uint32_t>(ids.size()));
    const Status read = reader_->Append(ids, writer_);
    MILLRACE_RETURN_IF_ERROR(source_->CheckIntact());
    MILLRACE_RETURN_IF_ERROR(read);
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const PackedBatch> batch, writer_.Seal());
    const std::vector<ExampleId>& built = batch->info().example_ids;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string& path = source_->tensors()[columns_[c].splits].path;
      const std::size_t splits = *batch->Find(path);
      for (std::size_t row = 0; row < built.size(); ++row) {
        const std::int64_t length = batch->ValueAt(splits, row + 1) - batch->ValueAt(splits, row);
        values[c][built[row].value() - first.value()] = static_cast<std::uint64_t>(length);
      }
    }
  }
  return OkStatus();
}

}  // namespace millrace
