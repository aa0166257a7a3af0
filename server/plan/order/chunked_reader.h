// Reads chunks of examples: reads the examples, and copies the elements of the chunks.
//
// Not thread-safe; the source and the chunks have to outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch_writer.h"
#include "server/plan/order/chunks.h"
#include "server/source/source.h"

namespace millrace {

/// The tensors that are cut.
struct ChunkCut {
  std::size_t tensor = 0;  // by number among the source's tensors
  std::size_t splits = 0;  // of the tensor, and of all tensors that are cut with it
  std::size_t column = 0;  // of the source: the lengths
};

class ChunkedReader final : public ExampleReader {
 public:
  /// REQUIRES: the source has the tensors of `cut`.
  static Result<std::unique_ptr<ChunkedReader>> Make(const Source& source, const Chunks& chunks,
                                                     const ChunkCut& cut);

  /// As ExampleReader; ids are ids of chunks. All chunks of a dropped example are dropped, with the
  /// id of the example. DataLoss also if an example's number of elements differs from its column.
  /// REQUIRES: `writer` has the source's tensors, and then the numbers of chunks.
  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override;

 private:
  /// An example that is built for some of its chunks, or all.
  struct Wanted {
    ExampleId id;
    std::uint64_t chunk = 0;  // for which it is built; 0 if one build gives all its chunks
    friend auto operator<=>(const Wanted&, const Wanted&) = default;
  };
  /// The row where it was built, or why it was dropped.
  struct Built {
    Wanted wanted;
    std::uint64_t row = 0;
    std::optional<DropReason> dropped;
  };

  ChunkedReader(const Source& source, const Chunks& chunks, const ChunkCut& cut,
                std::unique_ptr<BufferPool> pool, BatchWriter examples);
  Status ReadSome(std::span<const ExampleId> ids, BatchWriter& writer);
  /// Builds the examples of which `ids` has chunks: each once, or once per chunk if something draws
  /// random numbers.
  Status Build(std::span<const ExampleId> ids, std::uint64_t epoch);
  /// Builds examples, each once, and appends them to `examples_`.
  Status BuildSome(std::span<const Wanted> wanted);
  Status Copy(const Built& example, std::uint64_t number, BatchWriter& writer) const;
  /// The rows of a tensor that an example has, if `splits` cut it.
  Chunks::Extent RowsOf(std::size_t splits, std::uint64_t row) const;

  const Source* source_;
  const Chunks* chunks_;
  ChunkCut cut_;
  bool by_chunk_;  // whether each chunk is built for itself
  std::vector<std::optional<std::size_t>> splits_;  // of each tensor that is cut
  std::unique_ptr<BufferPool> pool_;                // of examples_, which seals no batch
  BatchWriter examples_;                            // whole ones
  std::unique_ptr<ExampleReader> reader_;
  std::vector<Wanted> wanted_;
  std::vector<ExampleId> ids_;  // that are built at once
  std::vector<Built> built_;    // in their order
};

}  // namespace millrace
