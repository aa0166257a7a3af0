#include "server/plan/pack/concat_rows.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "server/plan/pack/length_sums.h"

namespace millrace {

template <class Take, class EndRow>
Status ConcatRows::ForPieces(std::uint64_t first, std::uint64_t count, const Take& take,
                             const EndRow& end_row) const {
  if (count == 0) return OkStatus();
  const std::uint64_t size = layout_->options().size;
  const std::uint64_t all = layout_->totals().elements;
  std::uint64_t at = first * size;  // element of all
  const std::uint64_t end = std::min(all, (first + count) * size);
  std::uint64_t row_end = std::min(all, at + size);
  while (at < end) {
    const std::uint64_t group = layout_->GroupAt(at);
    MILLRACE_ASSIGN_OR_RETURN(const GroupPtr lengths, Lengths(group));
    const std::uint64_t first_document = layout_->FirstDocument(group);
    std::uint64_t document_at = layout_->Begin(group);
    for (std::size_t i = 0; i < lengths->lengths.size() && at < end; ++i) {
      const std::uint64_t document_end = document_at + lengths->lengths[i];
      while (at < std::min(document_end, end)) {
        const std::uint64_t piece_end = std::min(document_end, row_end);
        take(Piece{first_document + i, at - document_at, piece_end - at});
        at = piece_end;
        if (at == row_end) {
          end_row();
          row_end = std::min(all, at + size);
        }
      }
      document_at = document_end;
    }
  }
  return OkStatus();
}

Status ConcatRows::AppendPieces(std::uint64_t row, std::vector<Piece>& pieces) const {
  assert(row < layout_->rows());
  return ForPieces(
      row, 1, [&](const Piece& piece) { pieces.push_back(piece); }, [] {});
}

Status ConcatRows::ReadColumns(std::uint64_t first, std::span<RowColumns> columns) const {
  assert(first + columns.size() <= layout_->rows());
  std::fill(columns.begin(), columns.end(), RowColumns{});
  std::size_t row = 0;
  return ForPieces(
      first, columns.size(), [&](const Piece& piece) { columns[row].Add(piece.length); },
      [&] { ++row; });
}

Result<DocumentRows> ConcatRows::RowsOf(std::uint64_t document) const {
  const std::uint64_t group = layout_->GroupOf(document);
  MILLRACE_ASSIGN_OR_RETURN(const GroupPtr lengths, Lengths(group));
  const auto own = lengths->lengths.begin() +
                   static_cast<std::ptrdiff_t>(document - layout_->FirstDocument(group));
  if (*own == 0) return DocumentRows{DocumentRows::Reason::kEmpty, {}};
  const std::uint64_t begin = std::accumulate(lengths->lengths.begin(), own, layout_->Begin(group));
  const std::uint64_t size = layout_->options().size;
  const std::uint64_t first = begin / size;
  const std::uint64_t last = (begin + *own - 1) / size;
  return DocumentRows{DocumentRows::Reason::kHasRows, {{first, last - first + 1}}};
}

Result<ConcatRows::GroupPtr> ConcatRows::Lengths(std::uint64_t group) const {
  return groups_.Get(group, [&]() -> Result<GroupPtr> {
    auto read = std::make_shared<Group>();
    ReadGroup(group, read->lengths);
    const std::uint64_t sum = AddLengths(read->lengths);
    if (sum > kMaxPackElements) return TooManyElements(layout_->documents());
    if (sum != layout_->CountOf(group)) return Contradicts(group, sum);
    return GroupPtr(std::move(read));
  });
}

}  // namespace millrace
