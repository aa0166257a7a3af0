#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/plan/pack/pack_windows.h"
#include "tests/unit/server/plan/pack/plain_packs.h"

namespace millrace::test {
namespace {

using Reason = DocumentRows::Reason;
using Rows = std::vector<PieceRow>;
using Runs = std::vector<RowRun>;

PackOptions Fit(std::uint64_t size, PackAbove above = PackAbove::kSplit,
                std::uint64_t window = 4096) {
  return {size, PackMethod::kFit, above, window};
}
PackOptions Concat(std::uint64_t size) {
  return {size, PackMethod::kConcat, PackAbove::kSplit, 4096};
}

/// The rows that have pieces of each document, found by looking at all rows.
std::vector<std::vector<std::uint64_t>> PlainPlaces(const Rows& rows, std::uint64_t documents) {
  std::vector<std::vector<std::uint64_t>> places(documents);
  for (std::uint64_t row = 0; row < rows.size(); ++row) {
    for (const Piece& piece : rows[row]) {
      if (places[piece.document].empty() || places[piece.document].back() != row) {
        places[piece.document].push_back(row);
      }
    }
  }
  return places;
}

TEST_CASE("the pieces of the example by hand are in its rows", "[pack]") {
  const PackedList packed({5, 0, 3, 12, 1, 8, 0, 2}, Fit(8));
  CHECK(packed.AllRows() ==
        Rows{{{0, 0, 5}, {2, 0, 3}}, {{3, 0, 8}}, {{3, 8, 4}, {4, 0, 1}, {7, 0, 2}}, {{5, 0, 8}}});
}

TEST_CASE("rows are those of the plain reference", "[pack]") {
  rc::prop("for any lengths and options", [] {
    const PackCase any = AnyPackCase();
    const PackedList packed(any.lengths, any.options);
    RC_ASSERT(packed.AllRows() == PlainRows(any.lengths, any.options));
  });
}

TEST_CASE("each element is in one row, no row is above its size, and documents ascend in it",
          "[pack]") {
  rc::prop("for any lengths and options", [] {
    const PackCase any = AnyPackCase();
    const PackOptions& options = any.options;
    const PackedList packed(any.lengths, options);
    std::vector<std::vector<Piece>> pieces(any.lengths.size());
    for (const PieceRow& row : packed.AllRows()) {
      RC_ASSERT(!row.empty());
      std::uint64_t elements = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        RC_ASSERT(row[i].length > 0u);
        if (i > 0) RC_ASSERT(row[i - 1].document < row[i].document);
        elements += row[i].length;
        pieces[row[i].document].push_back(row[i]);
      }
      RC_ASSERT(elements <= options.size);
    }
    for (std::uint64_t i = 0; i < any.lengths.size(); ++i) {
      std::sort(pieces[i].begin(), pieces[i].end(),
                [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
      std::uint64_t expected = any.lengths[i];
      if (options.method == PackMethod::kFit && expected > options.size) {
        if (options.above == PackAbove::kCut) expected = options.size;
        if (options.above == PackAbove::kDrop) expected = 0;
      }
      std::uint64_t at = 0;
      for (const Piece& piece : pieces[i]) {
        RC_ASSERT(piece.begin == at);
        at += piece.length;
      }
      RC_ASSERT(at == expected);
      const bool fits = options.method == PackMethod::kFit && any.lengths[i] <= options.size;
      RC_ASSERT(!fits || pieces[i].size() == (expected == 0 ? 0u : 1u));
    }
  });
}

TEST_CASE("documents that follow each other fill rows, all but the last", "[pack]") {
  rc::prop("for any lengths", [] {
    PackCase any = AnyPackCase();
    any.options.method = PackMethod::kConcat;
    const PackedList packed(any.lengths, any.options);
    for (std::uint64_t row = 0; row + 1 < packed.layout->rows(); ++row) {
      RC_ASSERT(PlainColumns(packed.Row(row)).length == any.options.size);
    }
    RC_ASSERT(packed.layout->padding() < any.options.size);
  });
}

TEST_CASE("a window that is packed alone has the same rows", "[pack]") {
  rc::prop("for any lengths and options", [] {
    PackCase any = AnyPackCase();
    any.options.method = PackMethod::kFit;
    const PackedList packed(any.lengths, any.options);
    const PackWindows windows(any.lengths.size(), any.options.window);
    std::uint64_t row = 0;
    for (std::uint64_t w = 0; w < windows.size(); ++w) {
      const std::uint64_t begin = windows.Begin(w);
      const PackedList alone(
          Lengths(any.lengths.begin() + static_cast<std::ptrdiff_t>(begin),
                  any.lengths.begin() + static_cast<std::ptrdiff_t>(windows.Begin(w + 1))),
          any.options);
      RC_ASSERT(alone.layout->groups() == 1u);
      for (PieceRow pieces : alone.AllRows()) {
        for (Piece& piece : pieces) piece.document += begin;
        RC_ASSERT(packed.Row(row++) == pieces);
      }
    }
    RC_ASSERT(row == packed.layout->rows());
  });
}

TEST_CASE("rows are the same in any order of requests, whatever is kept", "[pack]") {
  rc::prop("for any lengths and options", [] {
    const PackCase any = AnyPackCase();
    const auto kept = *rc::gen::element<std::uint64_t>(0, 400, 3000, 1 << 20);
    const PackedList packed(any.lengths, any.options, kept);
    const Rows expected = PlainRows(any.lengths, any.options);
    if (expected.empty()) return;
    const auto places = PlainPlaces(expected, any.lengths.size());
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t row = AnyBelow(expected.size());
      RC_ASSERT(packed.Row(row) == expected[row]);
      const std::uint64_t document = AnyBelow(any.lengths.size());
      const DocumentRows found = packed.rows->RowsOf(document).value();
      RC_ASSERT(Listed(found.runs) == places[document]);
    }
  });
}

TEST_CASE("a document's rows are those that have pieces of it", "[pack]") {
  rc::prop("for any lengths and options", [] {
    const PackCase any = AnyPackCase();
    const PackedList packed(any.lengths, any.options);
    const auto places = PlainPlaces(PlainRows(any.lengths, any.options), any.lengths.size());
    for (std::uint64_t i = 0; i < any.lengths.size(); ++i) {
      const DocumentRows found = packed.rows->RowsOf(i).value();
      RC_ASSERT(Listed(found.runs) == places[i]);
      const Reason reason = any.lengths[i] == 0 ? Reason::kEmpty
                            : places[i].empty() ? Reason::kAbove
                                                : Reason::kHasRows;
      RC_ASSERT(found.reason == reason);
      for (std::size_t r = 1; r < found.runs.size(); ++r) {
        RC_ASSERT(found.runs[r - 1].first + found.runs[r - 1].count < found.runs[r].first);
      }
    }
  });
}

TEST_CASE("columns are sums over the pieces of rows", "[pack]") {
  rc::prop("for any consecutive rows", [] {
    const PackCase any = AnyPackCase();
    const PackedList packed(any.lengths, any.options);
    const Rows rows = PlainRows(any.lengths, any.options);
    const std::uint64_t first = AnyBelow(rows.size() + 1);
    const std::uint64_t count = AnyBelow(rows.size() - first + 1);
    std::vector<RowColumns> columns(count, {7, 7, 7});
    RC_ASSERT(packed.rows->ReadColumns(first, columns).ok());
    for (std::uint64_t i = 0; i < count; ++i) {
      RC_ASSERT(columns[i] == PlainColumns(rows[first + i]));
    }
  });
}

TEST_CASE("no documents, and documents without elements, have no rows", "[pack]") {
  for (const PackOptions& options : {Fit(8), Concat(8)}) {
    const PackedList none({}, options);
    CHECK(none.layout->rows() == 0);
    CHECK(none.layout->groups() == 0);
    const PackedList empty({0, 0, 0}, options);
    CHECK(empty.layout->rows() == 0);
    CHECK(empty.layout->totals().empty == 3);
    CHECK(empty.rows->RowsOf(1).value() == DocumentRows{Reason::kEmpty, {}});
  }
}

TEST_CASE("a window may have no rows", "[pack]") {
  const PackedList packed({0, 0, 0, 0, 5, 5, 3, 3}, Fit(8, PackAbove::kSplit, 3));
  CHECK(packed.AllRows() == Rows{{{4, 0, 5}}, {{5, 0, 5}, {6, 0, 3}}, {{7, 0, 3}}});
}

TEST_CASE("a document as long as a row fills it", "[pack]") {
  CHECK(PackedList({8, 8}, Fit(8, PackAbove::kDrop)).AllRows() == Rows{{{0, 0, 8}}, {{1, 0, 8}}});
  CHECK(PackedList({8, 8}, Concat(8)).AllRows() == Rows{{{0, 0, 8}}, {{1, 0, 8}}});
}

TEST_CASE("of equal rooms the one that was opened first takes a piece", "[pack]") {
  // The rows of documents 1 and 0 are opened in this order, and have room for 2 each once document
  // 2 lies with document 1. Document 3 has to go there too.
  CHECK(PackedList({6, 5, 1, 2}, Fit(8)).AllRows() ==
        Rows{{{0, 0, 6}, {3, 0, 2}}, {{1, 0, 5}, {2, 0, 1}}});
  CHECK(PackedList({5, 6, 1, 2}, Fit(8)).AllRows() ==
        Rows{{{0, 0, 5}, {2, 0, 1}}, {{1, 0, 6}, {3, 0, 2}}});
  CHECK(PackedList({6, 6, 2}, Fit(8)).AllRows() == Rows{{{0, 0, 6}, {2, 0, 2}}, {{1, 0, 6}}});
}

TEST_CASE("rows are numbered by their first pieces, not as they are opened", "[pack]") {
  CHECK(PackedList({3, 2, 6, 5}, Fit(8)).AllRows() ==
        Rows{{{0, 0, 3}, {3, 0, 5}}, {{1, 0, 2}, {2, 0, 6}}});
}

TEST_CASE("a long document's last piece may lie in a row before its other pieces", "[pack]") {
  const PackedList packed({5, 18, 7}, Fit(8));
  CHECK(packed.AllRows() == Rows{{{0, 0, 5}, {1, 16, 2}}, {{1, 0, 8}}, {{1, 8, 8}}, {{2, 0, 7}}});
  CHECK(packed.rows->RowsOf(1).value().runs == Runs{{0, 3}});
  const PackedList apart({5, 8, 18}, Fit(8));
  CHECK(apart.rows->RowsOf(2).value().runs == Runs{{0, 1}, {2, 2}});
}

TEST_CASE("documents above the size are split, cut or dropped", "[pack]") {
  const Lengths lengths{17, 3};
  const PackedList split(lengths, Fit(8, PackAbove::kSplit));
  CHECK(split.AllRows() == Rows{{{0, 0, 8}}, {{0, 8, 8}}, {{0, 16, 1}, {1, 0, 3}}});
  CHECK(split.layout->totals() == PackTotals{0, 1, 3, 4, 20, 0});
  const PackedList cut(lengths, Fit(8, PackAbove::kCut));
  CHECK(cut.AllRows() == Rows{{{0, 0, 8}}, {{1, 0, 3}}});
  CHECK(cut.layout->totals() == PackTotals{0, 1, 2, 2, 11, 9});
  CHECK(cut.layout->padding() == 5);
  const PackedList dropped(lengths, Fit(8, PackAbove::kDrop));
  CHECK(dropped.AllRows() == Rows{{{1, 0, 3}}});
  CHECK(dropped.layout->totals() == PackTotals{0, 1, 1, 1, 3, 17});
  CHECK(dropped.rows->RowsOf(0).value() == DocumentRows{Reason::kAbove, {}});
}

TEST_CASE("full pieces of long documents are counted, not listed", "[pack]") {
  const std::uint64_t huge = (std::uint64_t{1} << 50) + 3;
  const Lengths lengths{1, huge, 2, huge};
  for (const PackOptions& options : {Fit(4), Concat(4)}) {
    const PackedList packed(lengths, options);
    CHECK(packed.rows->cache_stats().bytes < 1000);
    CHECK(packed.layout->totals().elements == 2 * huge + 3);
  }
  const PackedList packed(lengths, Fit(4));
  const std::uint64_t full = std::uint64_t{1} << 48;
  CHECK(packed.layout->rows() == 2 * full + 3);
  CHECK(packed.Row(0) == PieceRow{{0, 0, 1}, {1, huge - 3, 3}});
  CHECK(packed.Row(1) == PieceRow{{1, 0, 4}});
  CHECK(packed.Row(full) == PieceRow{{1, 4 * (full - 1), 4}});
  CHECK(packed.Row(full + 1) == PieceRow{{2, 0, 2}});
  CHECK(packed.Row(full + 2) == PieceRow{{3, 0, 4}});
  CHECK(packed.Row(2 * full + 2) == PieceRow{{3, huge - 3, 3}});
  CHECK(packed.rows->RowsOf(1).value().runs == Runs{{0, full + 1}});
  CHECK(packed.rows->RowsOf(3).value().runs == Runs{{full + 2, full + 1}});
  std::vector<RowColumns> columns(3);
  REQUIRE(packed.rows->ReadColumns(full, columns).ok());
  CHECK(columns == std::vector<RowColumns>{{4, 1, 16}, {2, 1, 4}, {4, 1, 16}});
  CHECK(packed.rows->cache_stats().bytes < 1000);
}

TEST_CASE("the largest lengths can be packed", "[pack]") {
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{3}, kMaxPackSize}) {
    for (const PackOptions& options : {Fit(size), Concat(size)}) {
      const PackedList packed({kMaxPackElements - 5, 0, 5}, options);
      CHECK(packed.layout->totals().elements == kMaxPackElements);
      const std::uint64_t last = packed.layout->rows() - 1;
      CHECK(packed.Row(last).back().document == 2);
      CHECK(Listed({packed.rows->RowsOf(2).value().runs.back()}).back() == last);
      CHECK(packed.rows->RowsOf(0).value().runs.front().first == 0);
    }
  }
}

TEST_CASE("a row at random packs one window, and rows in order pack each window once", "[pack]") {
  Lengths lengths;
  for (std::uint64_t i = 0; i < 1000; ++i) lengths.push_back(i * i * 7 % 150);
  for (PackOptions options : {Fit(100, PackAbove::kSplit, 50), Concat(100)}) {
    const PackedList packed(lengths, options, 0);
    const std::uint64_t groups = packed.layout->groups();
    REQUIRE(packed.AllRows().size() > groups);
    const std::uint64_t in_order = packed.rows->cache_stats().made;
    if (options.method == PackMethod::kFit) CHECK(in_order == groups);
    CHECK(packed.rows->cache_stats().values == 1);
    std::uint64_t row = 0;
    for (int i = 0; i < 100; ++i) {
      row = (row * 31 + 17) % packed.layout->rows();
      const std::uint64_t before = packed.rows->cache_stats().made;
      const std::uint64_t read = packed.lengths->read();
      packed.Row(row);
      if (options.method == PackMethod::kFit) {
        CHECK(packed.rows->cache_stats().made - before <= 1);
        CHECK(packed.lengths->read() - read <= options.window);
      }
    }
    const PackedList kept(lengths, options);
    CHECK(kept.AllRows() == packed.AllRows());
    CHECK(kept.AllRows() == packed.AllRows());
    CHECK(kept.rows->cache_stats().made == groups);
  }
}

TEST_CASE("lengths that are not those of the layout are an error", "[pack]") {
  rc::prop("for any two lists of lengths", [] {
    const PackCase any = AnyPackCase();
    if (any.lengths.empty()) return;
    const PackedList packed(any.lengths, any.options);
    Lengths others = any.lengths;
    const auto changes = *rc::gen::inRange(1, 5);
    for (int i = 0; i < changes; ++i) {
      others[AnyBelow(others.size())] = *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 50),
                                                        rc::gen::arbitrary<std::uint64_t>());
    }
    const auto rows =
        PackRows::Make(packed.layout, std::make_shared<const ListLengths>(others), 1000);
    // Nothing fails but with a status, and what is found is possible.
    for (std::uint64_t row = 0; row < packed.layout->rows(); ++row) {
      PieceRow pieces;
      if (rows->AppendPieces(row, pieces).ok()) {
        RC_ASSERT(PlainColumns(pieces).length <= any.options.size);
        for (const Piece& piece : pieces) RC_ASSERT(piece.document < others.size());
      }
    }
    std::vector<RowColumns> columns(packed.layout->rows());
    const Status read = rows->ReadColumns(0, columns);
    RC_ASSERT(read.ok() || !read.message().empty());
    for (std::uint64_t i = 0; i < others.size(); ++i) {
      const Result<DocumentRows> found = rows->RowsOf(i);
      RC_ASSERT(found.ok() || !found.status().message().empty());
    }
  });
  for (const PackOptions& options : {Fit(8), Concat(8)}) {
    const PackedList packed({5, 3, 6}, options);
    const auto rows =
        PackRows::Make(packed.layout, std::make_shared<const ListLengths>(Lengths{5, 3, 60}), 0);
    PieceRow pieces;
    const Status status = rows->AppendPieces(0, pieces);
    CHECK(status.code() == StatusCode::kDataLoss);
    CHECK(status.message().find("documents 0 to 2") != std::string::npos);
    CHECK(pieces.empty());
  }
}

TEST_CASE("threads that want rows at once get the same, and pack each window once", "[pack]") {
  Lengths lengths;
  for (std::uint64_t i = 0; i < 3000; ++i) lengths.push_back(i * i * 7 % 250);
  for (const PackOptions& options : {Fit(100, PackAbove::kSplit, 100), Concat(100)}) {
    const PackedList packed(lengths, options);
    const PackedList few(lengths, options, 3000);
    const Rows expected = PackedList(lengths, options).AllRows();
    std::vector<int> wrong(4, 0);
    {
      std::vector<std::jthread> threads;
      for (std::size_t t = 0; t < wrong.size(); ++t) {
        threads.emplace_back([&, t] {
          for (std::uint64_t i = 0; i < expected.size(); ++i) {
            const std::uint64_t row = (i * 7 + t * 11) % expected.size();
            PieceRow pieces;
            if (!packed.rows->AppendPieces(row, pieces).ok() || pieces != expected[row]) {
              ++wrong[t];
            }
            pieces.clear();
            if (!few.rows->AppendPieces(row, pieces).ok() || pieces != expected[row]) ++wrong[t];
          }
        });
      }
    }
    CHECK(wrong == std::vector<int>(4, 0));
    CHECK(packed.rows->cache_stats().made == packed.layout->groups());
    CHECK(few.rows->cache_stats().bytes <= 3000);
  }
}

}  // namespace
}  // namespace millrace::test
