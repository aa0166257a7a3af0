#include "server/pipeline/order/chunked_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "common/batch/layout/tensor_table.h"

namespace millrace {
namespace {

/// How many chunks are read at once. Their examples are in memory as a whole.
constexpr std::size_t kChunksAtOnce = 64;

}  // namespace

Result<std::unique_ptr<ChunkedReader>> ChunkedReader::Make(const Source& source,
                                                           const Chunks& chunks,
                                                           const ChunkCut& cut) {
  auto pool = std::make_unique<BufferPool>();
  MILLRACE_ASSIGN_OR_RETURN(BatchWriter examples,
                            BatchWriter::Create(source.tensors(), source.expand(), *pool));
  return std::unique_ptr<ChunkedReader>(
      new ChunkedReader(source, chunks, cut, std::move(pool), std::move(examples)));
}

ChunkedReader::ChunkedReader(const Source& source, const Chunks& chunks, const ChunkCut& cut,
                             std::unique_ptr<BufferPool> pool, BatchWriter examples)
    : source_(&source),
      chunks_(&chunks),
      cut_(cut),
      pool_(std::move(pool)),
      examples_(std::move(examples)),
      reader_(source.NewReader()) {
  for (const TensorSpec& tensor : source.tensors()) {
    splits_.push_back(tensor.splits.empty() ? std::nullopt
                                            : FindTensor(source.tensors(), tensor.splits));
  }
}

Status ChunkedReader::Append(std::span<const ExampleId> ids, BatchWriter& writer) {
  while (!ids.empty()) {
    const std::size_t some = std::min(ids.size(), kChunksAtOnce);
    MILLRACE_RETURN_IF_ERROR(ReadSome(ids.first(some), writer));
    ids = ids.subspan(some);
  }
  return OkStatus();
}

Status ChunkedReader::ReadSome(std::span<const ExampleId> ids, BatchWriter& writer) {
  MILLRACE_RETURN_IF_ERROR(Build(ids, writer.info().epoch));
  for (const ExampleId id : ids) {
    const auto [row, number] = chunks_->At(id.value());
    const Built& example =
        *std::lower_bound(built_.begin(), built_.end(), ExampleId(row),
                          [](const Built& built, ExampleId wanted) { return built.id < wanted; });
    if (example.dropped) {
      writer.AddDropped(example.id, *example.dropped);
    } else {
      MILLRACE_RETURN_IF_ERROR(Copy(example, number, writer));
    }
  }
  return OkStatus();
}

Status ChunkedReader::Build(std::span<const ExampleId> ids, std::uint64_t epoch) {
  wanted_.clear();
  for (const ExampleId id : ids) wanted_.emplace_back(chunks_->At(id.value()).row);
  std::sort(wanted_.begin(), wanted_.end());
  wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());
  examples_.Begin({}, epoch, 0, static_cast<std::uint32_t>(wanted_.size()));
  MILLRACE_RETURN_IF_ERROR(reader_->Append(wanted_, examples_));
  MILLRACE_RETURN_IF_ERROR(examples_.CheckComplete());
  // Those that were dropped are between the others, in the order in which they were wanted.
  const BatchInfo& info = examples_.info();
  auto dropped = info.dropped.begin();
  std::uint64_t row = 0;
  built_.clear();
  for (const ExampleId id : wanted_) {
    if (dropped != info.dropped.end() && dropped->id == id) {
      built_.push_back({id, 0, (dropped++)->reason});
    } else {
      built_.push_back({id, row++, std::nullopt});
    }
  }
  return OkStatus();
}

Chunks::Extent ChunkedReader::RowsOf(std::size_t splits, std::uint64_t row) const {
  const std::uint32_t width = examples_.value_bytes(splits);
  const auto at = [&](std::uint64_t number) {
    std::uint64_t value = 0;
    std::memcpy(&value, examples_.values(splits).data() + number * width, width);
    return value;
  };
  return {at(row), at(row + 1)};
}

Status ChunkedReader::Copy(const Built& example, std::uint64_t number, BatchWriter& writer) const {
  const Chunks::Extent whole = RowsOf(cut_.splits, example.row);
  const std::uint64_t length = whole.end - whole.begin;
  std::int64_t expected = 0;
  const ColumnValues column{cut_.column, {&expected, 1}};
  source_->ReadColumns(example.id, {&column, 1});
  if (length != static_cast<std::uint64_t>(expected)) {
    return DataLoss(fmt::format(
        "example {}: {} has {} elements, but the column {} says {}, by which it is cut into chunks",
        example.id.value(), source_->tensors()[cut_.tensor].path, length,
        source_->columns()[cut_.column], expected));
  }
  const Chunks::Extent extent = chunks_->ExtentOf(number, length);
  for (std::size_t tensor = 0; tensor < splits_.size(); ++tensor) {
    if (source_->tensors()[tensor].kind == TensorKind::kSplits) continue;
    Chunks::Extent rows{example.row, example.row + 1};
    if (splits_[tensor]) rows = RowsOf(*splits_[tensor], example.row);
    if (splits_[tensor] == cut_.splits) rows = {rows.begin + extent.begin, rows.begin + extent.end};
    const std::uint64_t row_bytes = source_->tensors()[tensor].row_bytes();
    writer.AppendPacked(tensor, examples_.values(tensor).subspan(
                                    rows.begin * row_bytes, (rows.end - rows.begin) * row_bytes));
  }
  writer.AppendOne(splits_.size(), static_cast<std::int64_t>(number));
  writer.EndExample(example.id);
  return OkStatus();
}

}  // namespace millrace
