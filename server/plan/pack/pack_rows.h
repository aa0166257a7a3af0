// The rows of all documents: which pieces a row has, and which rows have a document.
//
// A row costs the lengths of one group of documents (pack_layout.h), and with kFit a window has to
// be packed. Groups that were used last are kept, together for all threads: rows of one window that
// follow each other, or that several threads want at once, pack it once.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "server/plan/pack/document_lengths.h"
#include "server/plan/pack/pack_layout.h"
#include "server/plan/pack/pieces.h"
#include "server/plan/pack/recent_values.h"

namespace millrace {

class PackRows {
 public:
  virtual ~PackRows() = default;

  /// Groups that were used last are kept in about `cache_bytes`, or in more if one group has more:
  /// a window of 4,096 documents has 40 kB, a group of kConcat 2 kB. REQUIRES: both have equally
  /// many documents.
  static std::unique_ptr<PackRows> Make(std::shared_ptr<const PackLayout> layout,
                                        std::shared_ptr<const DocumentLengths> lengths,
                                        std::uint64_t cache_bytes);

  /// Appends the pieces of a row, by document. After an error some of them may be there. REQUIRES:
  /// row < layout().rows().
  virtual Status AppendPieces(std::uint64_t row, std::vector<Piece>& pieces) const = 0;
  /// The columns of consecutive rows, beginning with `first`. For many rows, ask for many at once.
  /// REQUIRES: the rows exist.
  virtual Status ReadColumns(std::uint64_t first, std::span<RowColumns> columns) const = 0;
  /// The rows of a document. REQUIRES: document < layout().documents().
  virtual Result<DocumentRows> RowsOf(std::uint64_t document) const = 0;

  /// Groups that were found and made, and what is kept now.
  virtual RecentValuesStats cache_stats() const = 0;
  const PackLayout& layout() const { return *layout_; }

  // All calls: DataLoss if the lengths are not those that the layout was made of.

 protected:
  PackRows(std::shared_ptr<const PackLayout> layout, std::shared_ptr<const DocumentLengths> lengths)
      : layout_(std::move(layout)), lengths_(std::move(lengths)) {}

  /// Reads the lengths of a group.
  void ReadGroup(std::uint64_t group, std::vector<std::uint64_t>& lengths) const;
  /// The error of a group that has something else than the layout says.
  Status Contradicts(std::uint64_t group, std::uint64_t found) const;

  const std::shared_ptr<const PackLayout> layout_;
  const std::shared_ptr<const DocumentLengths> lengths_;
};

}  // namespace millrace
