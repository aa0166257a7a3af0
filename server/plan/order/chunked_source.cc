#include "server/plan/order/chunked_source.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "server/plan/order/chunked_reader.h"
#include "server/plan/order/chunks.h"
#include "server/plan/order/cut_tensors.h"
#include "server/plan/order/row_values.h"
#include "server/source/columns_read.h"
#include "server/source/source_decorator.h"

namespace millrace {
namespace {

/// Number of examples whose lengths are read at once.
constexpr std::uint64_t kLengthsAtOnce = 4096;

/// The lengths of all examples.
Result<std::vector<std::uint64_t>> LengthsOf(const Source& source, std::size_t column,
                                             const Chunks::Options& options) {
  const std::uint64_t examples = source.examples();
  std::vector<std::uint64_t> lengths;
  lengths.reserve(examples);
  std::vector<std::int64_t> values(std::min(examples, kLengthsAtOnce));
  std::uint64_t chunks = 0;
  while (lengths.size() < examples) {
    const std::uint64_t first = lengths.size();
    const auto some = std::span(values).first(std::min(kLengthsAtOnce, examples - first));
    const ColumnValues wanted{column, some};
    source.ReadColumns(ExampleId(first), {&wanted, 1});
    for (const std::int64_t value : some) {
      const auto length = static_cast<std::uint64_t>(value);
      if (length > kMaxOrderValue) {
        return InvalidArgument(
            fmt::format("chunk.tensor: expected lengths from 0 to {}, got {} for example {}",
                        kMaxOrderValue, value, lengths.size()));
      }
      lengths.push_back(length);
      chunks += Chunks::CountOf(length, options);
      if (chunks > kMaxChunks) {
        return InvalidArgument(
            fmt::format("chunk: the examples would be cut into more than {} chunks, which is the "
                        "most; make chunk.step or chunk.size larger than {} and {}",
                        kMaxChunks, options.step, options.size));
      }
    }
  }
  return lengths;
}

SourceFacts FactsOf(const Source& source, const Chunks& chunks, std::uint64_t most_chunks) {
  SourceFacts facts = source.facts();
  facts.examples = chunks.size();
  TensorSpec number;
  number.path = kChunkTensor;
  number.kind = TensorKind::kDense;
  number.dtype = NarrowestDType(0, most_chunks - 1);
  number.dimension = "batch";
  number.max = most_chunks - 1;
  if (facts.max_example_bytes != 0) facts.max_example_bytes += number.row_bytes();
  facts.tensors.push_back(std::move(number));
  return facts;
}

/// The most chunks of an example; at least 1.
std::uint64_t MostChunks(std::span<const std::uint64_t> lengths, const Chunks::Options& options) {
  std::uint64_t most = 1;
  for (const std::uint64_t length : lengths) {
    most = std::max(most, Chunks::CountOf(length, options));
  }
  return most;
}

class ChunkedSource final : public SourceDecorator, public ExampleChunks {
 public:
  ChunkedSource(const std::shared_ptr<const Source>& source, ChunkCut cut, Chunks chunks,
                std::uint64_t most_chunks)
      : SourceDecorator(source, FactsOf(*source, chunks, most_chunks)),
        cut_(cut),
        chunks_(std::move(chunks)) {}

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    if (wanted.empty() || wanted.front().values.empty()) return;
    const std::uint64_t last = first.value() + wanted.front().values.size() - 1;
    const std::uint64_t begin = chunks_.At(first.value()).row;
    const std::uint64_t rows = chunks_.At(last).row - begin + 1;
    std::vector<ColumnValues> read;
    for (const ColumnValues& column : wanted) {
      read.push_back({column.column, column.values.first(rows), column.presence});
    }
    source().ReadColumns(ExampleId(begin), read);
    for (const ColumnValues& column : wanted) Spread(first.value(), begin, rows, column);
  }
  bool Unmeasured(std::size_t column, ExampleId id) const override {
    return source().Unmeasured(column, ChunkOf(id).example);
  }

  const ExampleChunks* chunks() const override { return this; }
  ExampleChunk ChunkOf(ExampleId id) const override {
    const auto [row, number] = chunks_.At(id.value());
    return {ExampleId(row), number};
  }
  std::uint64_t whole_examples() const override { return source().examples(); }
  ChunkIds ChunksOf(ExampleId example) const override {
    const std::uint64_t first = chunks_.FirstOf(example.value());
    return {ExampleId(first), chunks_.FirstOf(example.value() + 1) - first};
  }

  std::unique_ptr<ExampleReader> NewReader() const override {
    // The source's own plan could make its writer too.
    return *ChunkedReader::Make(source(), chunks_, cut_);
  }
  // Names are those of whole examples, so chunks have none.
  std::unique_ptr<const ExampleNames> NewNames() const override { return nullptr; }

 private:
  /// Gives each chunk the value of its example. The first `rows` values are those of the examples
  /// from `begin` on. From the last chunk to the first, no value is overwritten before it is read,
  /// because every example has a chunk.
  void Spread(std::uint64_t first, std::uint64_t begin, std::uint64_t rows,
              const ColumnValues& column) const {
    std::uint64_t row = begin + rows - 1;
    std::uint64_t first_of_row = chunks_.FirstOf(row);
    for (std::uint64_t i = column.values.size(); i-- > 0;) {
      while (first + i < first_of_row) first_of_row = chunks_.FirstOf(--row);
      std::int64_t value = column.values[row - begin];
      if (column.column == cut_.column) {
        const Chunks::Extent extent =
            chunks_.ExtentOf(first + i - first_of_row, static_cast<std::uint64_t>(value));
        value = static_cast<std::int64_t>(extent.end - extent.begin);
      }
      column.values[i] = value;
    }
  }

  const ChunkCut cut_;
  const Chunks chunks_;
};

}  // namespace

Status CheckChunks(const Source& source, const ChunkPart& part) {
  if (part.tensor.empty()) return OkStatus();
  const std::optional<std::size_t> tensor = FindByDottedName(source, part.tensor);
  if (!tensor) {
    return InvalidArgument(fmt::format("chunk.tensor: the source '{}' has no tensor '{}'; {}",
                                       source.name(), part.tensor, TensorsToCut(source)));
  }
  if (const std::string why = WhyNotCut(source, source.tensors()[*tensor]); !why.empty()) {
    return InvalidArgument(fmt::format("chunk.tensor: {}; {}", why, TensorsToCut(source)));
  }
  if (FindTensor(source.tensors(), kChunkTensor)) {
    return InvalidArgument(
        fmt::format("chunk: the source '{}' has a tensor '{}' already, and the numbers of chunks "
                    "are called so too",
                    source.name(), kChunkTensor));
  }
  return OkStatus();
}

Result<std::shared_ptr<const Source>> CutIntoChunks(std::shared_ptr<const Source> source,
                                                    const ChunkPart& part) {
  if (part.tensor.empty()) return source;
  MILLRACE_RETURN_IF_ERROR(CheckChunks(*source, part));
  const auto column = source->FindColumn(LengthColumnOf(part.tensor));
  if (!column.ok()) return column.status().WithContext("chunk.tensor");
  if (source->columns()[*column].floats) {
    return InvalidArgument(fmt::format("chunk.tensor: the column {} has floats, expected integers",
                                       LengthColumnOf(part.tensor)));
  }
  ChunkCut cut;
  cut.tensor = *FindByDottedName(*source, part.tensor);
  cut.splits = *FindTensor(source->tensors(), source->tensors()[cut.tensor].splits);
  cut.column = *column;
  const Chunks::Options options{part.size, part.step};
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> lengths,
                            LengthsOf(*source, cut.column, options));
  return std::shared_ptr<const Source>(
      std::make_shared<const ChunkedSource>(source, cut, Chunks(lengths, options),
                                            MostChunks(lengths, options)));
}

}  // namespace millrace
