#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/plan/pack/length_sums.h"
#include "server/plan/pack/row_counter.h"
#include "server/plan/pack/window_packer.h"
#include "tests/unit/server/plan/pack/plain_packs.h"

namespace millrace::test {
namespace {

/// The layout by looking at all rows.
void CheckLayout(const PackLayout& layout, const Lengths& lengths) {
  const PackOptions& options = layout.options();
  const std::vector<PieceRow> rows = PlainRows(lengths, options);
  PackTotals totals;
  std::uint64_t all = 0;
  for (const std::uint64_t length : lengths) {
    all += length;
    totals.empty += length == 0 ? 1 : 0;
    totals.above += options.method == PackMethod::kFit && length > options.size ? 1 : 0;
  }
  totals.rows = rows.size();
  for (const PieceRow& row : rows) {
    totals.pieces += row.size();
    totals.elements += PlainColumns(row).length;
  }
  totals.left_out = all - totals.elements;
  RC_ASSERT(layout.totals().empty == totals.empty);
  RC_ASSERT(layout.totals().above == totals.above);
  RC_ASSERT(layout.totals().rows == totals.rows);
  RC_ASSERT(layout.totals().pieces == totals.pieces);
  RC_ASSERT(layout.totals().elements == totals.elements);
  RC_ASSERT(layout.totals().left_out == totals.left_out);
  RC_ASSERT(layout.padding() == totals.rows * options.size - totals.elements);
  RC_ASSERT(layout.documents() == lengths.size());
  for (std::uint64_t row = 0; row < rows.size(); ++row) {
    const std::uint64_t document = rows[row].front().document;
    const std::uint64_t group =
        layout.GroupAt(options.method == PackMethod::kFit ? row : row * options.size);
    RC_ASSERT(layout.GroupOf(document) == group);
    RC_ASSERT(layout.FirstDocument(group) <= document);
    RC_ASSERT(layout.FirstDocument(group + 1) > document);
  }
}

TEST_CASE("a layout has the sums over all rows, and each row in its group", "[pack]") {
  rc::prop("for any lengths and options", [] {
    const PackCase any = AnyPackCase();
    CheckLayout(MakePackLayout(ListLengths(any.lengths), any.options, {.threads = 1}).value(),
                any.lengths);
  });
}

TEST_CASE("counting a window gives as many rows as packing it", "[pack]") {
  rc::prop("for windows one after another in the same memory", [] {
    PackCase any = AnyPackCase();
    any.options.method = PackMethod::kFit;
    RowCounter counter(any.options);
    WindowPacker packer(any.options);
    for (int i = 0; i < 4; ++i) {
      const std::size_t size = AnyBelow(any.lengths.size() + 1);
      const auto some = std::span(any.lengths).last(size);
      RC_ASSERT(counter.Count(some).rows == packer.Pack(5, some)->size());
    }
  });
}

/// Lengths by a rule, so that there may be many.
class RuleLengths final : public DocumentLengths {
 public:
  explicit RuleLengths(std::uint64_t documents) : documents_(documents) {}
  std::uint64_t documents() const override { return documents_; }
  void Read(std::uint64_t first, std::span<std::uint64_t> lengths) const override {
    for (std::uint64_t& length : lengths) {
      length = first * first * 7 % 1501 * (first % 97 == 5 ? 20 : 1);
      ++first;
    }
  }

 private:
  const std::uint64_t documents_;
};

TEST_CASE("a layout is the same with any number of threads, and progress ascends", "[pack]") {
  constexpr std::uint64_t kDocuments = 100'000;
  const RuleLengths lengths(kDocuments);
  for (const PackMethod method : {PackMethod::kFit, PackMethod::kConcat}) {
    for (const std::uint64_t window : {10, 4096, 30'000}) {
      const PackOptions options{1000, method, PackAbove::kSplit, window};
      const PackLayout one = MakePackLayout(lengths, options, {.threads = 1}).value();
      for (const unsigned threads : {0u, 2u, 3u, 16u}) {
        std::vector<std::uint64_t> progress;
        const PackLayout many =
            MakePackLayout(lengths, options,
                           {.threads = threads,
                            .stop = {},
                            .progress = [&](std::uint64_t done) { progress.push_back(done); }})
                .value();
        CHECK(many.totals() == one.totals());
        REQUIRE(many.groups() == one.groups());
        for (std::uint64_t group = 0; group <= one.groups(); ++group) {
          REQUIRE(many.Begin(group) == one.Begin(group));
        }
        CHECK(std::is_sorted(progress.begin(), progress.end()));
        CHECK(progress.size() > 2);
        CHECK(progress.back() == kDocuments);
      }
    }
  }
}

/// Lengths whose first ones can only be read once later ones are asked for.
class LateLengths final : public DocumentLengths {
 public:
  explicit LateLengths(std::uint64_t documents) : lengths_(documents) {}
  std::uint64_t documents() const override { return lengths_.documents(); }
  void Read(std::uint64_t first, std::span<std::uint64_t> lengths) const override {
    lengths_.Read(first, lengths);
    if (first > 0) later_ = true;
    later_.notify_all();
    if (first == 0) later_.wait(false);
  }

 private:
  const RuleLengths lengths_;
  mutable std::atomic<bool> later_{false};
};

TEST_CASE("a layout is the same if threads read the first lengths last", "[pack]") {
  for (const PackMethod method : {PackMethod::kFit, PackMethod::kConcat}) {
    const PackOptions options{7, method, PackAbove::kSplit, 4096};
    const PackLayout late = MakePackLayout(LateLengths(40'000), options, {.threads = 2}).value();
    const PackLayout plain = MakePackLayout(RuleLengths(40'000), options, {.threads = 1}).value();
    CHECK(late.totals() == plain.totals());
  }
}

TEST_CASE("a layout is not finished if a stop is requested", "[pack]") {
  const RuleLengths lengths(100'000);
  for (const PackMethod method : {PackMethod::kFit, PackMethod::kConcat}) {
    std::stop_source stop;
    std::uint64_t last = 0;
    LayoutOptions options{.threads = 2, .stop = stop.get_token(), .progress = {}};
    options.progress = [&](std::uint64_t done) {
      last = done;
      stop.request_stop();
    };
    const auto layout = MakePackLayout(lengths, {1000, method, PackAbove::kSplit, 4096}, options);
    REQUIRE_FALSE(layout.ok());
    CHECK(layout.status().code() == StatusCode::kCancelled);
    CHECK(last < 100'000);
  }
}

TEST_CASE("more elements than 2^63 are an error that says so", "[pack]") {
  const std::uint64_t most = kMaxPackElements;
  for (const Lengths& lengths :
       {Lengths{most, 1}, Lengths{most + 1}, Lengths{~std::uint64_t{0}, 1}, Lengths{1, most},
        Lengths{most / 2, most / 2, 1}, Lengths{most, most}}) {
    for (const PackMethod method : {PackMethod::kFit, PackMethod::kConcat}) {
      for (const std::uint64_t window : {1, 4096}) {
        const auto layout = MakePackLayout(ListLengths(lengths),
                                           {8, method, PackAbove::kDrop, window}, {.threads = 2});
        REQUIRE_FALSE(layout.ok());
        CHECK(layout.status().code() == StatusCode::kInvalidArgument);
        CHECK(layout.status().message().find("9223372036854775808 (2^63)") != std::string::npos);
      }
    }
  }
}

TEST_CASE("options beyond their limits, and too many documents, are refused", "[pack]") {
  const PackOptions good{8, PackMethod::kFit, PackAbove::kSplit, 10};
  std::vector<PackOptions> bad(4, good);
  bad[0].size = 0;
  bad[1].size = kMaxPackSize + 1;
  bad[2].window = 0;
  bad[3].window = kMaxPackWindow + 1;
  for (const PackOptions& options : bad) {
    CHECK(MakePackLayout(ListLengths({1}), options).status().code() ==
          StatusCode::kInvalidArgument);
  }
  const PackOptions concat{8, PackMethod::kConcat, PackAbove::kSplit, 0};
  CHECK(MakePackLayout(ListLengths({1}), concat).ok());
  CHECK(MakePackLayout(RuleLengths(kMaxPackDocuments + 1), good).status().code() ==
        StatusCode::kInvalidArgument);
}

TEST_CASE("sums of lengths do not wrap", "[pack]") {
  const std::uint64_t most = kMaxPackElements;
  CHECK(AddLengths(Lengths{}) == 0);
  CHECK(AddLengths(Lengths{1, 2}, 4) == 7);
  CHECK(AddLengths(Lengths{most - 1, 1}) == most);
  CHECK(AddLengths(Lengths{most, 1}) > most);
  CHECK(AddLengths(Lengths{1}, most) > most);
  CHECK(AddLengths(Lengths{most, most, 5}) > most);
  CHECK(AddLengths(Lengths{~std::uint64_t{0}, 2}) > most);
}

}  // namespace
}  // namespace millrace::test
