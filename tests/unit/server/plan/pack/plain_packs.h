// A plain reference of packing, and what its tests have in common.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <rapidcheck.h>

#include "server/plan/pack/make_layout.h"
#include "server/plan/pack/pack_rows.h"

namespace millrace::test {

using PieceRow = std::vector<Piece>;
using Lengths = std::vector<std::uint64_t>;

/// Best fit decreasing, with a look at every row for each piece.
inline std::vector<PieceRow> PlainBestFit(const PieceRow& pieces, std::uint64_t size) {
  std::vector<std::size_t> order;
  for (std::size_t q = 0; q < pieces.size(); ++q) order.push_back(q);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return pieces[a].length > pieces[b].length;
  });
  std::vector<std::uint64_t> rooms;
  std::vector<std::vector<std::size_t>> held;
  for (const std::size_t q : order) {
    std::optional<std::size_t> best;
    for (std::size_t row = 0; row < rooms.size(); ++row) {
      if (rooms[row] >= pieces[q].length && (!best || rooms[row] < rooms[*best])) best = row;
    }
    if (!best) {
      best = rooms.size();
      rooms.push_back(size);
      held.emplace_back();
    }
    rooms[*best] -= pieces[q].length;
    held[*best].push_back(q);
  }
  for (std::vector<std::size_t>& row : held) std::sort(row.begin(), row.end());
  std::sort(held.begin(), held.end());
  std::vector<PieceRow> rows;
  for (const std::vector<std::size_t>& numbers : held) {
    rows.emplace_back();
    for (const std::size_t q : numbers) rows.back().push_back(pieces[q]);
  }
  return rows;
}

/// The pieces of documents [begin, end) for kFit.
inline PieceRow PlainPieces(const Lengths& lengths, std::uint64_t begin, std::uint64_t end,
                            const PackOptions& options) {
  PieceRow pieces;
  for (std::uint64_t i = begin; i < end; ++i) {
    const std::uint64_t length = lengths[i];
    if (length > options.size && options.above == PackAbove::kDrop) continue;
    for (std::uint64_t at = 0; at < length; at += options.size) {
      pieces.push_back({i, at, std::min(options.size, length - at)});
      if (options.above == PackAbove::kCut) break;
    }
  }
  return pieces;
}

inline std::vector<PieceRow> PlainRows(const Lengths& lengths, const PackOptions& options) {
  std::vector<PieceRow> rows;
  const std::uint64_t n = lengths.size();
  if (options.method == PackMethod::kConcat) {
    std::uint64_t room = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
      for (std::uint64_t at = 0; at < lengths[i];) {
        if (room == 0) rows.emplace_back();
        if (room == 0) room = options.size;
        const std::uint64_t length = std::min(room, lengths[i] - at);
        rows.back().push_back({i, at, length});
        at += length;
        room -= length;
      }
    }
    return rows;
  }
  const std::uint64_t windows = (n + options.window - 1) / options.window;
  for (std::uint64_t w = 0; w < windows; ++w) {
    const PieceRow pieces = PlainPieces(lengths, w * n / windows, (w + 1) * n / windows, options);
    for (PieceRow& row : PlainBestFit(pieces, options.size)) rows.push_back(std::move(row));
  }
  return rows;
}

inline RowColumns PlainColumns(const PieceRow& row) {
  RowColumns columns;
  for (const Piece& piece : row) {
    columns.length += piece.length;
    columns.pieces += 1;
    columns.squares += piece.length * piece.length;
  }
  return columns;
}

/// Lengths in a list.
class ListLengths final : public DocumentLengths {
 public:
  explicit ListLengths(Lengths lengths) : lengths_(std::move(lengths)) {}

  std::uint64_t documents() const override { return lengths_.size(); }
  void Read(std::uint64_t first, std::span<std::uint64_t> lengths) const override {
    if (first > lengths_.size() || lengths.size() > lengths_.size() - first) std::abort();
    std::copy_n(lengths_.begin() + static_cast<std::ptrdiff_t>(first), lengths.size(),
                lengths.begin());
    read_ += lengths.size();
  }
  /// How many lengths were read.
  std::uint64_t read() const { return read_; }

 private:
  const Lengths lengths_;
  mutable std::atomic<std::uint64_t> read_{0};
};

/// Layout and rows of lengths. The layout must be possible.
struct PackedList {
  explicit PackedList(Lengths list, const PackOptions& options,
                      std::uint64_t cache_bytes = std::uint64_t{1} << 20, unsigned threads = 1)
      : lengths(std::make_shared<const ListLengths>(std::move(list))) {
    Result<PackLayout> made = MakePackLayout(*lengths, options, {.threads = threads});
    if (!made.ok()) throw std::runtime_error(made.status().ToString());
    layout = std::make_shared<const PackLayout>(*std::move(made));
    rows = PackRows::Make(layout, lengths, cache_bytes);
  }

  PieceRow Row(std::uint64_t row) const {
    PieceRow pieces;
    const Status status = rows->AppendPieces(row, pieces);
    if (!status.ok()) throw std::runtime_error(status.ToString());
    return pieces;
  }
  std::vector<PieceRow> AllRows() const {
    std::vector<PieceRow> all;
    for (std::uint64_t row = 0; row < layout->rows(); ++row) all.push_back(Row(row));
    return all;
  }

  std::shared_ptr<const ListLengths> lengths;
  std::shared_ptr<const PackLayout> layout;
  std::unique_ptr<PackRows> rows;
};

/// All rows of runs, one by one.
inline std::vector<std::uint64_t> Listed(const std::vector<RowRun>& runs) {
  std::vector<std::uint64_t> rows;
  for (const RowRun& run : runs) {
    for (std::uint64_t row = run.first; row < run.first + run.count; ++row) rows.push_back(row);
  }
  return rows;
}

/// A number below `limit`, each equally likely, however small the case is.
inline std::uint64_t AnyBelow(std::uint64_t limit) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::uint64_t>(0, limit));
}

/// Documents of a few lengths beside many of any length, and options that they meet.
struct PackCase {
  Lengths lengths;
  PackOptions options;
};
inline PackCase AnyPackCase() {
  PackCase any;
  PackOptions& options = any.options;
  options.size = *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(1, 12),
                                 rc::gen::inRange<std::uint64_t>(1, 300));
  options.method = *rc::gen::element(PackMethod::kFit, PackMethod::kFit, PackMethod::kConcat);
  options.above = *rc::gen::element(PackAbove::kSplit, PackAbove::kCut, PackAbove::kDrop);
  options.window = *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(1, 10),
                                   rc::gen::inRange<std::uint64_t>(1, 400));
  const std::uint64_t most = *rc::gen::element<std::uint64_t>(
      2, options.size / 2 + 1, options.size + 1, options.size * 3 + 2);
  any.lengths = *rc::gen::container<Lengths>(rc::gen::oneOf(
      rc::gen::just(std::uint64_t{0}), rc::gen::just(options.size),
      rc::gen::inRange<std::uint64_t>(0, most), rc::gen::inRange<std::uint64_t>(0, most),
      rc::gen::inRange<std::uint64_t>(0, most)));
  return any;
}

}  // namespace millrace::test
