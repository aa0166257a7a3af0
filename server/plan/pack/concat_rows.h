// The rows of PackMethod::kConcat: row r has the elements [r · size, (r + 1) · size) of all, which
// are those of document after document.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "server/plan/pack/pack_rows.h"
#include "server/plan/pack/recent_values.h"

namespace millrace {

class ConcatRows final : public PackRows {
 public:
  /// As PackRows::Make. REQUIRES: the layout is of kConcat.
  ConcatRows(std::shared_ptr<const PackLayout> layout,
             std::shared_ptr<const DocumentLengths> lengths, std::uint64_t cache_bytes)
      : PackRows(std::move(layout), std::move(lengths)), groups_(cache_bytes) {}

  Status AppendPieces(std::uint64_t row, std::vector<Piece>& pieces) const override;
  Status ReadColumns(std::uint64_t first, std::span<RowColumns> columns) const override;
  Result<DocumentRows> RowsOf(std::uint64_t document) const override;
  RecentValuesStats cache_stats() const override { return groups_.stats(); }

 private:
  /// The lengths of a group's documents.
  struct Group {
    std::vector<std::uint64_t> lengths;
    std::uint64_t bytes() const { return lengths.capacity() * sizeof(std::uint64_t); }
  };
  using GroupPtr = std::shared_ptr<const Group>;

  /// The lengths of a group, from the cache or read now.
  Result<GroupPtr> Lengths(std::uint64_t group) const;
  /// Calls `take(piece)` for the pieces of rows [first, first + count), row after row, and
  /// `end_row()` behind each row.
  template <class Take, class EndRow>
  Status ForPieces(std::uint64_t first, std::uint64_t count, const Take& take,
                   const EndRow& end_row) const;

  mutable RecentValues<Group> groups_;
};

}  // namespace millrace
