#include "server/plan/order/chunked_reader.h"

#include <algorithm>
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
      by_chunk_(source.facts().draws_by_chunk),
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
    const Wanted of{ExampleId(row), by_chunk_ ? number : 0};
    const Built& example =
        *std::lower_bound(built_.begin(), built_.end(), of,
                          [](const Built& built, const Wanted& it) { return built.wanted < it; });
    if (example.dropped) {
      writer.AddDropped(example.wanted.id, *example.dropped);
    } else {
      MILLRACE_RETURN_IF_ERROR(Copy(example, number, writer));
    }
  }
  return OkStatus();
}

Status ChunkedReader::Build(std::span<const ExampleId> ids, std::uint64_t epoch) {
  wanted_.clear();
  for (const ExampleId id : ids) {
    const auto [row, number] = chunks_->At(id.value());
    wanted_.push_back({ExampleId(row), by_chunk_ ? number : 0});
  }
  std::sort(wanted_.begin(), wanted_.end());
  wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());
  // Readers tell rows from dropped examples by their ids, so each round has an example once.
  std::vector<std::vector<Wanted>> rounds(1);
  std::size_t round = 0;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    round = i > 0 && wanted_[i - 1].id == wanted_[i].id ? round + 1 : 0;
    if (round == rounds.size()) rounds.emplace_back();
    rounds[round].push_back(wanted_[i]);
  }
  examples_.Begin({}, epoch, 0, static_cast<std::uint32_t>(wanted_.size()));
  if (by_chunk_) {
    std::vector<std::uint64_t> chunks;
    for (const std::vector<Wanted>& some : rounds) {
      for (const Wanted& one : some) chunks.push_back(one.chunk);
    }
    examples_.SetChunks(std::move(chunks));
  }
  built_.clear();
  for (const std::vector<Wanted>& some : rounds) MILLRACE_RETURN_IF_ERROR(BuildSome(some));
  std::sort(built_.begin(), built_.end(),
            [](const Built& a, const Built& b) { return a.wanted < b.wanted; });
  return examples_.CheckComplete();
}

Status ChunkedReader::BuildSome(std::span<const Wanted> wanted) {
  const BatchInfo& info = examples_.info();
  std::uint64_t row = info.example_ids.size();
  std::size_t drop = info.dropped.size();
  ids_.clear();
  for (const Wanted& one : wanted) ids_.push_back(one.id);
  MILLRACE_RETURN_IF_ERROR(reader_->Append(ids_, examples_));
  // Those that were dropped are between the others, in the order in which they were wanted.
  for (const Wanted& one : wanted) {
    if (drop < info.dropped.size() && info.dropped[drop].id == one.id) {
      built_.push_back({one, 0, info.dropped[drop++].reason});
    } else {
      built_.push_back({one, row++, std::nullopt});
    }
  }
  return OkStatus();
}

Chunks::Extent ChunkedReader::RowsOf(std::size_t splits, std::uint64_t row) const {
  return {examples_.SplitAt(splits, row), examples_.SplitAt(splits, row + 1)};
}

Status ChunkedReader::Copy(const Built& example, std::uint64_t number, BatchWriter& writer) const {
  const Chunks::Extent whole = RowsOf(cut_.splits, example.row);
  const std::uint64_t length = whole.end - whole.begin;
  std::int64_t expected = 0;
  const ColumnValues column{cut_.column, {&expected, 1}};
  source_->ReadColumns(example.wanted.id, {&column, 1});
  if (length != static_cast<std::uint64_t>(expected)) {
    return DataLoss(fmt::format(
        "example {}: {} has {} elements, but the column {} says {}, by which it is cut into chunks",
        example.wanted.id.value(), source_->tensors()[cut_.tensor].path, length,
        source_->columns()[cut_.column].name, expected));
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
  writer.EndExample(example.wanted.id);
  return OkStatus();
}

}  // namespace millrace
