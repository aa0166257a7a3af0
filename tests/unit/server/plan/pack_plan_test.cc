// Plans that pack documents into rows, from the pipeline's text to the batches.

#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/batch/batch.h"
#include "server/plan/plan_library.h"
#include "server/source/keyed_order.h"
#include "tests/support/number_kind.h"
#include "tests/unit/server/plan/pack/plain_packs.h"
#include "tests/unit/server/plan/pack_plans.h"
#include "tests/unit/server/plan/slices.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using Runs = std::vector<std::int64_t>;

TEST_CASE("rows have the documents that split and filter select, and exclude leaves their places",
          "[plan][pack]") {
  Runs lengths;
  for (std::int64_t i = 0; i < 200; ++i) lengths.push_back(i * 37 % 50);
  PackPlans plans(lengths);
  const std::string pack = "pack: {tensor: run, size: 40, method: fit, window: 16, seed: 3}\n";
  const std::string odd = "filter: {where: \"odd\"}\nshuffle: {seed: 1}\n";
  const auto plan = plans.MustCompile(pack + odd + kFiveEach);
  const auto& packs = *plan->source()->packs();
  std::map<std::uint64_t, std::uint64_t> elements;
  for (std::uint64_t row = 0; row < plan->source()->examples(); ++row) {
    for (const PlainPiece& piece : PlainPiecesOf(*plan, row)) elements[piece[0]] += piece[2];
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const bool is_odd = lengths[i] % 2 == 1;
    CHECK(elements[i] == static_cast<std::uint64_t>(is_odd ? lengths[i] : 0));
    if (!is_odd) CHECK(WhyNoRow(packs.RowsOf(ExampleId(i)).value().why) == "filtered");
  }
  CHECK(packs.summary().documents == 100);
  CHECK(packs.summary().filtered == 100);
  for (const std::uint32_t world_size : {1u, 2u, 3u, 7u}) {
    std::vector<std::uint64_t> rows = CheckedPackedRows(plans, *plan, 5, world_size);
    std::sort(rows.begin(), rows.end());
    CHECK(rows == NumbersBelow(plan->source()->examples()));
  }

  // Without two documents, all others stay where they were.
  const PlainRow first = PlainPiecesOf(*plan, 0);
  const std::uint64_t lost = first.back()[0];
  const auto less = plans.MustCompile(
      pack + odd + fmt::format("exclude: {{examples: [{}]}}\n", lost) + kFiveEach);
  CHECK(less->facts().order_fingerprint() == plan->facts().order_fingerprint());
  CHECK(PlainPiecesOf(*less, 0) == first);
  const auto batch = less->BatchOf(std::vector<ExampleId>{ExampleId(0)}, 0, *less->NewScratch());
  REQUIRE(batch.ok());
  PlainRow kept = first;
  std::erase_if(kept, [&](const PlainPiece& piece) { return piece[0] == lost; });
  REQUIRE(kept.size() < first.size());
  CheckPackedRow(plans, **batch, 0, kept);
  CHECK((*batch)->info().lost_pieces ==
        std::vector<LostPieces>{{DropReason::kExcluded, first.size() - kept.size()}});
}

TEST_CASE("lost pieces of rows are the same if several threads build a batch", "[plan][pack]") {
  Runs lengths;
  for (std::int64_t i = 0; i < 200; ++i) lengths.push_back(1 + i * 37 % 50);
  PackPlans plans(lengths);
  std::string excluded;
  for (int i = 0; i < 200; i += 3) excluded += fmt::format("{}{}", i == 0 ? "" : ", ", i);
  const auto plan = plans.MustCompile("pack: {tensor: run, size: 40, method: concat}\nexclude: " +
                                      fmt::format("{{examples: [{}]}}\n", excluded) +
                                      "shuffle: {seed: 1}\nbatch: {size: 20, remainder: keep}\n");
  std::uint64_t expected = 0;
  for (std::uint64_t row = 0; row < plan->source()->examples(); ++row) {
    for (const PlainPiece& piece : PlainPiecesOf(*plan, row)) expected += piece[0] % 3 == 0 ? 1 : 0;
  }
  std::uint64_t lost = 0;
  for (const auto& batch : ReadEpoch(*plan, 0, 1)) {
    for (const LostPieces& one : batch->info().lost_pieces) lost += one.pieces;
  }
  CHECK(lost == expected);
  CHECK(lost > 67);  // some documents are cut
  CheckSlices(*plan, 20, {1, 7}, 1);
}

TEST_CASE("the tensor whose elements count as tokens is the packed one, or one cut alike",
          "[plan][pack]") {
  PackPlans plans({4, 3, 2, 7});
  const std::string pack = "pack: {tensor: run, with: [run.minus], size: 8, method: fit}\n";
  const auto token_tensor = [&](const std::string& more) {
    return plans.MustCompile(more + kFiveEach)->facts().fields().spec.token_tensor();
  };
  CHECK(token_tensor("") == "");
  CHECK(token_tensor(pack) == "run");
  CHECK(token_tensor(pack + "output: [pack.label]\n") == "run");
  CHECK(token_tensor(pack + "output: [run.minus]\n") == "run/minus");
  CHECK(token_tensor(pack + "tensors: {x: {cast: run, dtype: int8, at: worker}}\noutput: [x]\n") ==
        "x");
  CHECK(token_tensor(pack + "output: [pack.lengths]\n") == "");
}

TEST_CASE("a row that loses all its documents is dropped for the reason of its first",
          "[plan][pack]") {
  PackPlans plans({4, 3, 2, 7});
  const auto plan = plans.MustCompile(
      "pack: {tensor: run, size: 8, method: concat}\nexclude: {examples: [0, 1, 2]}\n" + kFiveEach);
  const auto batch = ReadEpoch(*plan, 0, 1).front();
  REQUIRE(batch->info().dropped.size() == 1);
  CHECK(batch->info().dropped[0].id == ExampleId(0));
  CHECK(batch->info().dropped[0].reason == DropReason::kExcluded);
  // Document 2 has a piece in the other row, too.
  CHECK(batch->info().lost_pieces == std::vector<LostPieces>{{DropReason::kExcluded, 4}});
  CHECK(batch->examples() == 1);
  CheckPackedRow(plans, *batch, 0, {{3, 0, 7}});
}

TEST_CASE("rows are kept beside the columns, and found by the next process", "[plan][pack]") {
  PackPlans plans({4, 3, 2, 7});
  const auto plan = plans.MustCompile("pack: {tensor: run, size: 8, method: fit}\n" + kFiveEach);
  CHECK(plans.measured() == 1);
  std::vector<std::filesystem::path> kept;
  for (const auto& folder : plans.ColumnFolders()) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      if (file.path().extension() == ".rows") kept.push_back(file.path());
    }
  }
  CHECK(kept.size() == 1);
}

TEST_CASE("batches and orders may go by the columns of rows alone", "[plan][pack]") {
  PackPlans plans({4, 3, 2, 7});
  const std::string pack = "pack: {tensor: run, size: 8, method: fit}\n";
  CHECK_THAT(plans.ErrorOf(pack + "batch: {size: 2}\nbalance: {by: value}\n"),
             Contains("balance.by: ") &&
                 Contains("the source has the columns run.length, pack.pieces, pack.squares"));
  CHECK(plans.Compile(pack + "batch: {size: 1}\nbalance: {by: \"pack.squares + run.length\"}\n")
            .ok());
}

TEST_CASE("a plan whose documents cannot be packed is refused with the key", "[plan][pack]") {
  PackPlans plans({4, 3, 2, 7});
  const auto error = [&](const std::string& more) { return plans.ErrorOf(more + kFiveEach); };
  CHECK_THAT(error("pack: {tensor: rum, size: 8, method: fit}\n"),
             Contains("pack.tensor: the source 'runs' has no tensor 'rum'; expected one of run, "
                      "run.minus"));
  CHECK_THAT(error("pack: {tensor: value, size: 8, method: fit}\n"),
             Contains("pack.tensor: value is not ragged"));
  CHECK_THAT(error("pack: {tensor: run, with: [value], size: 8, method: fit}\n"),
             Contains("pack.with: value is not ragged"));
  CHECK_THAT(error("pack: {tensor: run, with: [run], size: 8, method: fit}\n"),
             Contains("pack.with: expected other tensors than pack.tensor, each once, got run"));
  CHECK_THAT(error("chunk: {tensor: run, size: 2}\npack: {tensor: run, size: 8, method: fit}\n"),
             Contains("chunk.tensor: expected no chunk beside pack"));
  CHECK_THAT(error("pack: {tensor: run, size: 3, method: fit, before: [1], after: [2, 3]}\n"),
             Contains("pack.after: expected fewer elements before and after a document than "
                      "pack.size, 3, got 3"));
  CHECK_THAT(error("pack: {tensor: run, size: 8, method: fit, before: [40000]}\n"),
             Contains("pack.before: expected values of int16, -32768 to 32767, as run has, got "
                      "40000"));
  CHECK_THAT(error("pack: {tensor: run, with: [run.minus], size: 8, method: fit, before: [4]}\n"),
             Contains("pack.with: expected no pack.before beside it"));
  CHECK_THAT(error("pack: {tensor: run, size: 1, method: fit, above: drop}\n"),
             Contains("pack.tensor: 0 rows: 4 documents, 4 above 1"));
  CHECK_THAT(error("pack: {tensor: run, size: 0, method: fit}\n"), Contains("pack.size: expected"));
  CHECK_THAT(error("pack: {tensor: run, size: 1048577, method: fit}\n"),
             Contains("pack.size: expected"));
  CHECK_THAT(error("pack: {tensor: run, size: 8}\n"), Contains("the key pack.method is missing"));
  CHECK_THAT(error("pack: {tensor: run, size: 8, method: best}\n"),
             Contains("pack.method: expected one of concat, fit"));
  CHECK_THAT(error("pack: {tensor: run, size: 8, method: fit, multiple: 2}\n"),
             Contains("pack.multiple is not yet supported"));
  CHECK_THAT(error("pack: {tensor: run, size: 8, method: fit}\nexclude: {examples: [4]}\n"),
             Contains("exclude.examples: there is no example 4: the source has 4, from 0 on"));
  CHECK_THAT(error("pack: {tensor: run, size: 8, method: fit}\ntensors: {pack: {cast: run, dtype: "
                   "int32}}\n"),
             Contains("tensors.pack: ") && Contains("expected another name"));
  CHECK_THAT(
      plans.ErrorOf("pack: {tensor: run, size: 8, method: fit}\nbatch: {size: 2}\noutput: [run, "
                    "value]\n"),
      Contains("value"));
}

TEST_CASE("keys of pack are in the digests, but not those that concat does not use",
          "[plan][pack]") {
  PackPlans plans({4, 3, 2, 7});
  const auto prints = [&](const std::string& keys) {
    const auto plan = plans.MustCompile("pack: {tensor: run, " + keys + "}\n" + kFiveEach);
    return std::pair(plan->facts().fingerprint(), plan->facts().order_fingerprint());
  };
  const auto concat = prints("size: 8, method: concat");
  CHECK(prints("size: 8, method: concat, above: cut, window: 3") == concat);
  const auto fit = prints("size: 8, method: fit");
  CHECK(prints("size: 8, method: fit, above: split, window: 4096, seed: null, with: []") == fit);
  for (const char* keys :
       {"size: 8, method: concat", "size: 9, method: fit", "size: 8, method: fit, above: cut",
        "size: 8, method: fit, window: 2", "size: 8, method: fit, seed: 0",
        "size: 8, method: fit, before: [1]", "size: 8, method: fit, after: [1]",
        "size: 8, method: fit, with: [run.minus]"}) {
    INFO(keys);
    CHECK(prints(keys).first != fit.first);
    CHECK(prints(keys).second != fit.second);
  }
}

TEST_CASE("all branches pack documents, or none", "[plan][pack][mix]") {
  PackPlans plans({4, 3, 2, 7});
  const auto error = [&](const std::string& text) {
    const auto plan = plans.CompileText(text + kFiveEach);
    REQUIRE_FALSE(plan.ok());
    return plan.status().message();
  };
  const std::string a = "  a: {dataset: n, source: runs}\n";
  const std::string b =
      "  b: {dataset: n, source: runs, pack: {tensor: run, size: 8, method: fit}}\n";
  CHECK_THAT(error("millrace: 1\nbranches:\n" + a + b + "mix: {weights: {a: 1, b: 1}, epoch: 4}\n"),
             Contains("branches.a.pack: the key is missing; expected it in all branches or in "
                      "none, and b has it"));
  CHECK_THAT(error("millrace: 1\npack: {tensor: run, size: 8, method: fit}\nbranches:\n" + a +
                   "mix: {weights: {a: 1}, epoch: 4}\n"),
             Contains("pack stands in the branches of a pipeline that has any"));
}

TEST_CASE("a mix has labels of its branches' rows", "[plan][pack][mix]") {
  PackPlans plans({4, 3, 2, 7});
  const std::string branch = "dataset: n, source: runs, pack: {tensor: run, size: 8, method: fit}";
  const std::string text = "millrace: 1\nbranches:\n  a: {" + branch + "}\n  b: {" + branch +
                           "}\nmix: {weights: {a: 1, b: 1}, epoch: 4}\n" + kFiveEach;
  const auto plan = plans.CompileText(text + "output: [run, pack.label]\n");
  INFO(plan.status().message());
  CHECK(plan.ok());
  const auto hidden = plans.CompileText(text + "output: [run, pack.next]\n");
  CHECK_THAT(hidden.status().message(), Contains("output: there is no tensor 'pack.next'"));
}

TEST_CASE("any documents give the rows of a plain packer, each once an epoch", "[plan][pack]") {
  rc::prop("rows are those of the plain packer", [] {
    const PackCase any = AnyPackCase();
    RC_PRE(!any.lengths.empty());
    Runs lengths;
    for (const std::uint64_t length : any.lengths) {
      lengths.push_back(static_cast<std::int64_t>(std::min<std::uint64_t>(length, kLongestRun)));
    }
    const auto seed =
        *rc::gen::element(std::optional<std::uint64_t>(), std::optional<std::uint64_t>(7));
    const KeyedOrder order(DeriveSeed(seed, "pack", 0), 0, lengths.size());
    Lengths packed;
    for (std::uint64_t i = 0; i < lengths.size(); ++i) {
      packed.push_back(static_cast<std::uint64_t>(lengths[order(i)]));
    }
    std::vector<PlainRow> expected;
    for (const PieceRow& row : PlainRows(packed, any.options)) {
      PlainRow& plain = expected.emplace_back();
      for (const Piece& piece : row) {
        plain.push_back({order(piece.document), piece.begin, piece.length});
      }
    }
    PackPlans plans(lengths);
    const char* const above[] = {"split", "cut", "drop"};
    const std::string text = fmt::format(
        "pack: {{tensor: run, size: {}, method: {}, above: {}, window: {}, seed: {}}}\n"
        "shuffle: {{seed: 4}}\nbatch: {{global_size: 6, remainder: keep}}\n",
        any.options.size, any.options.method == PackMethod::kFit ? "fit" : "concat",
        above[static_cast<std::size_t>(any.options.above)], any.options.window,
        seed ? "7" : "null");
    if (expected.empty()) {
      RC_ASSERT(plans.ErrorOf(text).find("0 rows") != std::string::npos);
      return;
    }
    const auto plan = plans.MustCompile(text);
    RC_ASSERT(plan->source()->examples() == expected.size());
    for (std::uint64_t row = 0; row < expected.size(); ++row) {
      RC_ASSERT(PlainPiecesOf(*plan, row) == expected[row]);
    }
    std::vector<std::uint64_t> rows =
        CheckedPackedRows(plans, *plan, 1, *rc::gen::element<std::uint32_t>(1, 2, 3));
    std::sort(rows.begin(), rows.end());
    RC_ASSERT(rows == NumbersBelow(expected.size()));
  });
}

}  // namespace
}  // namespace millrace::test
