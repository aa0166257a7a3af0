// Reads rows of packed documents: reads the documents, and copies their pieces.
//
// Not thread-safe; what it refers to has to outlive it.
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
#include "server/plan/pack/pack_rows.h"
#include "server/plan/packed/packed_documents.h"
#include "server/plan/packed/row_tensors.h"
#include "server/source/source.h"

namespace millrace {

/// The parts that readers of one source share. Immutable; thread-safe.
struct PackedView {
  std::shared_ptr<const PackedDocuments> documents;
  std::unique_ptr<const PackRows> rows;
  RowTensors tensors;
  std::vector<std::uint64_t> excluded;  // ids of documents that leave rows, ascending
};

class PackedReader final : public ExampleReader {
 public:
  static Result<std::unique_ptr<PackedReader>> Make(const PackedView& view);

  /// As ExampleReader; ids are numbers of rows. A document that is dropped leaves its rows, and its
  /// pieces count as lost; a row without pieces is dropped, for the reason of its first. DataLoss
  /// also if the length of a document differs from its column, or from that of a tensor that goes
  /// where its elements go. REQUIRES: `writer` has the tensors of the view.
  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override;
  /// The pieces that Append leaves in a row. Errors as of Append.
  Result<std::vector<RowPiece>> KeptPieces(ExampleId row, std::uint64_t epoch);

 private:
  /// A piece of a row.
  struct Part {
    ExampleId document;
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
    std::uint64_t own = 0;  // elements of the document, without those that are put around them
  };
  struct Row {
    ExampleId id;
    std::size_t first = 0;  // part
    std::size_t end = 0;
  };
  /// A document that rows need: the row of documents_ where it was built, or why it is dropped.
  struct Built {
    ExampleId id;
    std::uint64_t row = 0;
    std::optional<DropReason> dropped;
  };
  /// The elements of a piece, in the three parts of which they may come: elements that are put
  /// before the document, its own, and elements that are put after it.
  struct Extents {
    struct Extent {
      std::uint64_t first = 0;
      std::uint64_t count = 0;
    };
    Extent before, own, after;
  };

  PackedReader(const PackedView& view, std::unique_ptr<BufferPool> pool, BatchWriter documents,
               std::unique_ptr<ElementReader> elements);

  const Source& source() const { return view_.documents->source(); }
  /// Finds the parts of some first rows, and returns how many rows these are: as many as need about
  /// kElementsAtOnce elements of documents.
  Result<std::size_t> FindParts(std::span<const ExampleId> ids);
  Status AppendRows(BatchWriter& writer);
  /// Finds out which documents of the parts are dropped. If they are read as a whole, builds them.
  Status FindDocuments(std::uint64_t epoch);
  Status BuildDocuments(std::uint64_t epoch);
  Status CheckLengths() const;
  const Built& BuiltOf(ExampleId document) const;
  Status AppendRow(const Row& row, BatchWriter& writer);

  Extents ExtentsOf(std::uint64_t begin, std::uint64_t length, std::uint64_t own) const;
  /// Copies elements of T.
  Status CopyElements(const Part& part, const Extents& extents, std::byte* to);
  /// Copies a document's own elements of a copied tensor.
  Status CopyOwn(std::size_t copied, const Part& part, const Extents::Extent& extent,
                 std::byte* to);
  Result<std::int64_t> NextOf(const Part& part);

  const PackedView& view_;
  const std::uint64_t element_bytes_;     // of T
  const std::uint64_t around_;            // elements that are put around a document
  std::unique_ptr<BufferPool> pool_;      // of documents_, which seals no batch
  BatchWriter documents_;                 // whole ones
  std::unique_ptr<ExampleReader> whole_;  // null if there are elements_
  std::unique_ptr<ElementReader> elements_;

  // These are of the rows at hand.
  std::vector<Row> rows_;
  std::vector<Part> parts_;
  std::vector<Piece> pieces_;  // of one row
  std::vector<ExampleId> ids_;
  std::vector<Built> built_;       // by id
  std::vector<const Part*> kept_;  // parts of one row that are not lost
};

}  // namespace millrace
