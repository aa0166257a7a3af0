#include "server/plan/pack/packed_window.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace millrace {

std::uint64_t PackedWindow::bytes() const {
  return rows_.runs.capacity() * sizeof(FullRun) +
         (rows_.begins.capacity() + rows_.documents.capacity() + rows_.lengths.capacity()) *
             sizeof(std::uint32_t);
}

std::size_t PackedWindow::RunsUpTo(std::uint64_t row) const {
  const auto end =
      std::partition_point(rows_.runs.begin(), rows_.runs.end(),
                           [row](const FullRun& run) { return run.first_row() <= row; });
  return static_cast<std::size_t>(end - rows_.runs.begin());
}

std::uint64_t PackedWindow::FullPiecesOf(std::uint32_t document) const {
  const auto run =
      std::partition_point(rows_.runs.begin(), rows_.runs.end(),
                           [document](const FullRun& it) { return it.document < document; });
  if (run == rows_.runs.end() || run->document != document) return 0;
  const auto number = static_cast<std::size_t>(run - rows_.runs.begin());
  return FullBefore(number + 1) - run->full_before;
}

void PackedWindow::AppendPieces(std::uint64_t row, std::vector<Piece>& pieces) const {
  assert(row < size());
  const std::size_t runs = RunsUpTo(row);
  const std::uint64_t full = FullBefore(runs);
  if (runs > 0) {
    const FullRun& run = rows_.runs[runs - 1];
    const std::uint64_t number = row - run.first_row();
    if (number < full - run.full_before) {
      pieces.push_back({rows_.first_document + run.document, number * rows_.size, rows_.size});
      return;
    }
  }
  const std::uint64_t mixed = row - full;
  for (std::uint32_t at = rows_.begins[mixed]; at < rows_.begins[mixed + 1]; ++at) {
    const std::uint32_t document = rows_.documents[at];
    pieces.push_back(
        {rows_.first_document + document, FullPiecesOf(document) * rows_.size, rows_.lengths[at]});
  }
}

void PackedWindow::ReadColumns(std::uint64_t first, std::span<RowColumns> columns) const {
  assert(first + columns.size() <= size());
  std::size_t runs = RunsUpTo(first);
  const RowColumns full_row{rows_.size, 1, rows_.size * rows_.size};
  std::uint64_t row = first;
  const std::uint64_t end = first + columns.size();
  while (row < end) {
    const std::uint64_t full = FullBefore(runs);
    if (runs > 0) {
      const FullRun& run = rows_.runs[runs - 1];
      const std::uint64_t behind = run.first_row() + (full - run.full_before);
      for (; row < std::min(end, behind); ++row) columns[row - first] = full_row;
    }
    const std::uint64_t next =
        runs == rows_.runs.size() ? end : std::min(end, rows_.runs[runs].first_row());
    for (; row < next; ++row) {
      const std::uint64_t mixed = row - full;
      RowColumns& sums = columns[row - first] = {};
      for (std::uint32_t at = rows_.begins[mixed]; at < rows_.begins[mixed + 1]; ++at) {
        sums.Add(rows_.lengths[at]);
      }
    }
    ++runs;
  }
}

std::vector<RowRun> PackedWindow::RowsOf(std::uint64_t document) const {
  std::vector<RowRun> found;
  const auto local = static_cast<std::uint32_t>(document - rows_.first_document);
  const auto run = std::partition_point(rows_.runs.begin(), rows_.runs.end(),
                                        [local](const FullRun& it) { return it.document < local; });
  if (run != rows_.runs.end() && run->document == local) {
    found.push_back({run->first_row(), FullPiecesOf(local)});
  }
  const auto piece = std::find(rows_.documents.begin(), rows_.documents.end(), local);
  if (piece == rows_.documents.end()) return found;
  const auto at = static_cast<std::uint32_t>(piece - rows_.documents.begin());
  const auto begin = std::upper_bound(rows_.begins.begin(), rows_.begins.end(), at) - 1;
  const auto mixed = static_cast<std::uint64_t>(begin - rows_.begins.begin());
  const auto later =
      std::partition_point(rows_.runs.begin(), rows_.runs.end(),
                           [mixed](const FullRun& it) { return it.mixed_before <= mixed; });
  const std::uint64_t row =
      mixed + FullBefore(static_cast<std::size_t>(later - rows_.runs.begin()));
  if (found.empty() || row < found.front().first) {
    found.insert(found.begin(), {row, 1});
    if (found.size() == 1) return found;
  } else {
    found.push_back({row, 1});
  }
  if (found[0].first + found[0].count == found[1].first) {  // one run, without a gap
    found[0].count += found[1].count;
    found.pop_back();
  }
  return found;
}

}  // namespace millrace
