// Rows of packed documents in any fleet: on any number of ranks and threads, resumed anywhere, and
// mixed.

#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/batch/batch.h"
#include "server/plan/plan_library.h"
#include "tests/support/number_kind.h"
#include "tests/unit/server/plan/pack/plain_packs.h"
#include "tests/unit/server/plan/pack_plans.h"
#include "tests/unit/server/plan/slices.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using Runs = std::vector<std::int64_t>;

/// 150 lengths from 0 to 59, some of them of runs that cannot be built.
Runs SomeRuns() {
  Runs runs;
  for (std::int64_t i = 0; i < 150; ++i) runs.push_back(i % 29 == 3 ? kNoRun : i * 37 % 60);
  return runs;
}

const std::string kPack =
    "pack: {tensor: run, with: [run.minus], size: 40, method: fit, window: 16, seed: 3}\n";
const std::string kOutput =
    "output: [run, run.minus, example_id, pack.lengths, pack.documents, pack.begins, pack.label]\n";

/// All that a row of a batch has, as text.
std::string RowText(const PackedBatch& batch, std::size_t row) {
  std::string text;
  const auto add = [&](const char* path, const char* splits) {
    if (!batch.Find(path)) return;
    text += fmt::format(" {}: {}", path, fmt::join(RaggedRow(batch, path, splits, row), " "));
  };
  add("run", "run_splits");
  add("run/minus", "run_splits");
  for (const char* path : {"pack.lengths", "pack.documents", "pack.begins", "pack.next"}) {
    add(path, "pack.lengths_splits");
  }
  return text;
}

using RowTexts = std::map<std::uint64_t, std::string>;

void AddRows(const PackedBatch& batch, RowTexts& rows) {
  for (std::size_t row = 0; row < batch.examples(); ++row) {
    const std::uint64_t id = batch.info().example_ids[row].value();
    REQUIRE(rows.emplace(id, RowText(batch, row)).second);
  }
  for (const DroppedExample& dropped : batch.info().dropped) {
    REQUIRE(rows.emplace(dropped.id.value(), "dropped").second);
  }
}

RowTexts RowsOf(const Plan& plan, std::uint64_t epoch, std::uint32_t world_size) {
  RowTexts rows;
  for (const auto& batch : ReadEpoch(plan, epoch, world_size)) AddRows(*batch, rows);
  return rows;
}

TEST_CASE("rows are the same in every epoch, order and form of batches, on any number of ranks",
          "[plan][pack][fleet]") {
  PackPlans plans(SomeRuns());
  const auto plain = plans.MustCompile(kPack + kOutput + "batch: {size: 4, remainder: keep}\n");
  const RowTexts expected = RowsOf(*plain, 0, 1);
  CHECK(expected.size() == plain->source()->examples());
  for (const std::string form :
       {"shuffle: {seed: 4}\nbatch: {size: 5, remainder: keep}\n",
        "shuffle: {seed: 4, block: 3, window: 2}\nbatch: {global_size: 12, remainder: keep}\n",
        "shuffle: {seed: 4}\nbalance: {by: \"pack.squares + pack.pieces\", group: 3}\n"
        "batch: {size: 3, remainder: keep}\n",
        "shuffle: {seed: 4}\nbatch: {bucket: {by: run.length, bounds: [30, 39, 40], size: 4}, "
        "remainder: keep}\n"}) {
    INFO(form);
    const auto plan = plans.MustCompile(kPack + kOutput + form);
    for (const std::uint32_t world_size : {1u, 2u, 3u, 6u}) {
      for (const std::uint64_t epoch : {0, 3}) {
        CHECK(RowsOf(*plan, epoch, world_size) == expected);
      }
    }
  }
}

TEST_CASE("rows are built in slices on several threads as on one", "[plan][pack][fleet]") {
  PackPlans plans(SomeRuns());
  const auto plan = plans.MustCompile(kPack + kOutput +
                                      "exclude: {examples: [0, 1, 2, 7, 8, 9, 40, 41]}\n"
                                      "shuffle: {seed: 2}\nbatch: {size: 8, remainder: keep}\n");
  CheckSlices(*plan, 8, {1, 3, 8});
}

TEST_CASE("a job that goes on in the middle, with other ranks, has the rest of the rows",
          "[plan][pack][fleet]") {
  PackPlans plans(SomeRuns());
  const auto plan = plans.MustCompile(kPack + kOutput +
                                      "shuffle: {seed: 1}\n"
                                      "batch: {global_size: 12, remainder: keep}\n");
  const RowTexts expected = RowsOf(*plan, 2, 1);
  rc::prop("after any step", [&] {
    const auto before = *rc::gen::element<std::uint32_t>(1, 2, 3, 4);
    const auto after = *rc::gen::element<std::uint32_t>(1, 2, 3, 6);
    auto steps_left = *rc::gen::inRange(0, 6);
    const auto scratch = plan->NewScratch();
    RowTexts rows;
    Position at{2, 0};
    const auto read = [&](std::uint32_t world_size, auto goes_on) {
      const StepArithmetic steps = *plan->facts().Steps(world_size);
      for (; at.epoch == 2 && goes_on(); at = steps.Next(at)) {
        for (std::uint32_t rank = 0; rank < world_size; ++rank) {
          const auto batch = plan->Batch(2, steps.RankExamples(at, rank), *scratch);
          RC_ASSERT(batch.ok());
          AddRows(**batch, rows);
        }
      }
    };
    read(before, [&] { return steps_left-- > 0; });
    read(after, [] { return true; });
    RC_ASSERT(rows == expected);
  });
}

TEST_CASE("any documents that are lost leave their rows, and move nothing else",
          "[plan][pack][fleet]") {
  const Runs runs = SomeRuns();
  PackPlans plans(runs);
  const std::string rest = kOutput + "shuffle: {seed: 1}\nbatch: {size: 5, remainder: keep}\n";
  const auto whole = plans.MustCompile(kPack + rest);
  rc::prop("for any of them", [&] {
    const auto lost = *rc::gen::container<std::set<std::uint64_t>>(
        rc::gen::inRange<std::uint64_t>(0, runs.size()));
    RC_PRE(!lost.empty());
    const auto plan = plans.MustCompile(
        kPack + fmt::format("exclude: {{examples: [{}]}}\n", fmt::join(lost, ", ")) + rest);
    RC_ASSERT(plan->source()->examples() == whole->source()->examples());
    RC_ASSERT(plan->facts().order_fingerprint() == whole->facts().order_fingerprint());
    const auto row = *rc::gen::inRange<std::uint64_t>(0, whole->source()->examples());
    const auto pieces = whole->source()->packs()->PiecesOf(ExampleId(row)).value();
    RC_ASSERT(plan->source()->packs()->PiecesOf(ExampleId(row)).value() == pieces);
    const std::vector<ExampleId> one = {ExampleId(row)};
    const auto before = whole->BatchOf(one, 0, *whole->NewScratch()).value();
    const auto batch = plan->BatchOf(one, 0, *plan->NewScratch()).value();
    Runs expected, got;
    std::int64_t at = 0;
    for (const RowPiece& piece : pieces) {
      const auto length = static_cast<std::int64_t>(piece.length);
      for (std::int64_t i = at; i < at + length; ++i) {
        if (lost.contains(piece.document.value())) continue;
        expected.push_back(before->ValueAt(*before->Find("run"), static_cast<std::size_t>(i)));
      }
      at += length;
    }
    if (expected.empty()) {
      RC_ASSERT(batch->info().dropped ==
                (std::vector<DroppedExample>{{ExampleId(row), DropReason::kExcluded}}));
      return;
    }
    RC_ASSERT(batch->info().example_ids == one);
    for (std::int64_t i = 0; i < batch->ValueAt(*batch->Find("run_splits"), 1); ++i) {
      got.push_back(batch->ValueAt(*batch->Find("run"), static_cast<std::size_t>(i)));
    }
    RC_ASSERT(got == expected);
  });
}

TEST_CASE("any documents, with elements around them, give the rows of a plain packer",
          "[plan][pack][fleet]") {
  rc::prop("for any lengths and keys", [] {
    PackCase any = AnyPackCase();
    Runs runs;
    for (const std::uint64_t length : any.lengths) {
      runs.push_back(static_cast<std::int64_t>(std::min<std::uint64_t>(length, kLongestRun)));
    }
    RC_PRE(!runs.empty());
    const auto some = rc::gen::container<Runs>(rc::gen::inRange<std::int64_t>(0, 99));
    Runs before = *rc::gen::resize(8, some);
    Runs after = *rc::gen::resize(8, some);
    any.options.size += before.size() + after.size();
    // The tensors that each document brings along.
    std::vector<Runs> documents;
    Lengths lengths;
    for (const std::int64_t run : runs) {
      Runs& document = documents.emplace_back();
      if (run > 0) document = before;
      for (std::int64_t i = 0; i < run; ++i) document.push_back(RunElement(run, i));
      if (run > 0) document.insert(document.end(), after.begin(), after.end());
      lengths.push_back(document.size());
    }
    std::vector<std::string> expected;
    for (const PieceRow& row : PlainRows(lengths, any.options)) {
      Runs values, of, ids, begins, next;
      for (const Piece& piece : row) {
        const Runs& document = documents[piece.document];
        const auto from = document.begin() + static_cast<std::ptrdiff_t>(piece.begin);
        const auto to = from + static_cast<std::ptrdiff_t>(piece.length);
        values.insert(values.end(), from, to);
        of.push_back(static_cast<std::int64_t>(piece.length));
        ids.push_back(static_cast<std::int64_t>(piece.document));
        begins.push_back(static_cast<std::int64_t>(piece.begin));
        next.push_back(to == document.end() ? -100 : *to);
      }
      expected.push_back(
          fmt::format(" run: {} pack.lengths: {} pack.documents: {} pack.begins: {} pack.next: {}",
                      fmt::join(values, " "), fmt::join(of, " "), fmt::join(ids, " "),
                      fmt::join(begins, " "), fmt::join(next, " ")));
    }
    RC_PRE(!expected.empty());
    const char* const above[] = {"split", "cut", "drop"};
    PackPlans plans(runs);
    const auto plan = plans.MustCompile(fmt::format(
        "pack: {{tensor: run, size: {}, method: {}, above: {}, window: {}, before: [{}], after: "
        "[{}]}}\noutput: [run, pack.lengths, pack.documents, pack.begins, pack.label]\n"
        "shuffle: {{seed: 4}}\nbatch: {{size: 6, remainder: keep}}\n",
        any.options.size, any.options.method == PackMethod::kFit ? "fit" : "concat",
        above[static_cast<std::size_t>(any.options.above)], any.options.window,
        fmt::join(before, ", "), fmt::join(after, ", ")));
    const RowTexts rows = RowsOf(*plan, 1, *rc::gen::element<std::uint32_t>(1, 2, 3));
    std::vector<std::string> got;
    for (const auto& [id, text] : rows) got.push_back(text);
    RC_ASSERT(got == expected);
  });
}

TEST_CASE("a variant packs the documents of another split in the same way", "[plan][pack][fleet]") {
  PackPlans plans(SomeRuns());
  const std::string text =
      "millrace: 1\ndataset: n\nsource: runs\n"
      "split: {method: hash, proportions: [1, 1], seed: 5, take: 0}\n" +
      kPack + kOutput +
      "batch: {size: 4, remainder: keep}\n"
      "variants: {other: {split.take: 1}, short: {pack.size: 20, pack.above: drop}}\n";
  std::set<std::uint64_t> documents;
  std::uint64_t selected = 0;
  for (const char* variant : {"", "other"}) {
    const auto plan = plans.CompileVariant(text, variant);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    const DocumentPacks& packs = *(*plan)->source()->packs();
    selected += packs.summary().documents;
    for (std::uint64_t row = 0; row < (*plan)->source()->examples(); ++row) {
      for (const RowPiece& piece : packs.PiecesOf(ExampleId(row)).value()) {
        if (piece.begin == 0) CHECK(documents.insert(piece.document.value()).second);
      }
    }
  }
  CHECK(selected == 150);
  const auto narrow = plans.CompileVariant(text, "short");
  REQUIRE(narrow.ok());
  CHECK((*narrow)->source()->facts().packed->size == 20);
  CHECK((*narrow)->source()->packs()->summary().above > 0);
}

TEST_CASE("documents are excluded from the branch that has them", "[plan][pack][mix]") {
  PackPlans plans({4, 3, 2, 7});
  const auto text = [](const std::string& a, const std::string& b, const std::string& pack) {
    return "millrace: 1\nbranches:\n  a: {dataset: n, source: runs" + pack + a +
           "}\n  b: {dataset: n, source: runs" + pack + b +
           "}\nmix: {weights: {a: 1, b: 1}, epoch: 4}\nbatch: {size: 4, remainder: keep}\n";
  };
  for (const std::string pack : {", pack: {tensor: run, size: 7, method: fit}", ""}) {
    INFO(pack);
    CHECK(plans.CompileText(text("", ", exclude: {examples: [3]}", pack)).ok());
    for (const bool in_a : {true, false}) {
      const std::string exclude = ", exclude: {examples: [0, 4]}";
      const auto plan = plans.CompileText(text(in_a ? exclude : "", in_a ? "" : exclude, pack));
      REQUIRE_FALSE(plan.ok());
      CHECK_THAT(plan.status().message(),
                 StartsWith(in_a ? "branch a: " : "branch b: ") &&
                     Contains("exclude.examples: there is no example 4: the source has 4, from 0 "
                              "on"));
    }
  }
  const auto plan = plans.CompileText(
      text("", ", exclude: {examples: [3]}", ", pack: {tensor: run, size: 7, method: fit}"));
  REQUIRE(plan.ok());
  // Rows of each branch: {0, 1}, {2} and {3}; those of b are 3, 4 and 5.
  const RowTexts rows = RowsOf(**plan, 0, 1);
  CHECK(rows.size() == 4);
  const auto batch =
      (*plan)->BatchOf(std::vector{ExampleId(2), ExampleId(5)}, 0, *(*plan)->NewScratch());
  REQUIRE(batch.ok());
  CHECK((*batch)->info().example_ids == std::vector{ExampleId(2)});
  CHECK((*batch)->info().dropped ==
        std::vector<DroppedExample>{{ExampleId(5), DropReason::kExcluded}});
}

TEST_CASE("rows of a mix go on from branch to branch, and their tensors are of their branches",
          "[plan][pack][mix]") {
  PackPlans plans({4, 3, 2, 7});
  const auto plan = plans.CompileText(
      "millrace: 1\nbranches:\n"
      "  a: {dataset: n, source: runs, pack: {tensor: run, size: 7, method: fit}}\n"
      "  b: {dataset: n, source: runs, pack: {tensor: run, size: 9, method: concat, after: [5]}}\n"
      "mix: {weights: {a: 1, b: 1}, epoch: 6}\n"
      "output: [run, branch, example_id, pack.lengths, pack.documents, pack.begins, pack.label]\n"
      "batch: {size: 6, remainder: keep}\n");
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  CHECK((*plan)->source()->facts().packed->size == 9);
  RowTexts texts;
  for (const std::uint64_t id : {0, 1, 2, 3, 4, 5}) {
    const auto batch = (*plan)->BatchOf(std::vector{ExampleId(id)}, 0, *(*plan)->NewScratch());
    INFO(id << batch.status().message());
    REQUIRE(batch.ok());
    AddRows(**batch, texts);
    CHECK((*batch)->ValueAt(*(*batch)->Find("branch"), 0) == (id < 3 ? 0 : 1));
  }
  const auto part = [](std::int64_t run, std::int64_t first, std::int64_t end) {
    std::string text;
    for (std::int64_t i = first; i < end; ++i) text += fmt::format(" {}", RunElement(run, i));
    return text;
  };
  CHECK(texts[0] == " run:" + part(4, 0, 4) + part(3, 0, 3) +
                        " pack.lengths: 4 3 pack.documents: 0 1 pack.begins: 0 0"
                        " pack.next: -100 -100");
  CHECK(texts[2] == " run:" + part(7, 0, 7) +
                        " pack.lengths: 7 pack.documents: 3 pack.begins: 0 pack.next: -100");
  // In b, documents have 5, 4, 3 and 8 elements.
  CHECK(texts[3] == " run:" + part(4, 0, 4) + " 5" + part(3, 0, 3) +
                        " 5 pack.lengths: 5 4 pack.documents: 0 1 pack.begins: 0 0"
                        " pack.next: -100 -100");
  CHECK(texts[4] == " run:" + part(2, 0, 2) + " 5" + part(7, 0, 6) +
                        " pack.lengths: 3 6 pack.documents: 2 3 pack.begins: 0 0"
                        " pack.next: -100" +
                        part(7, 6, 7));
  CHECK(texts[5] == " run:" + part(7, 6, 7) +
                        " 5 pack.lengths: 2 pack.documents: 3 pack.begins: 6 pack.next: -100");
}

TEST_CASE("keys that cannot stand beside packs are refused", "[plan][pack]") {
  PackPlans plans({4, 3, 2, 7});
  const std::string pack = "pack: {tensor: run, size: 8, method: fit}\n";
  const auto error = [&](const std::string& more) {
    return plans.ErrorOf(more + "batch: {size: 2, remainder: keep}\n");
  };
  CHECK_THAT(error("pack: {tensor: run, size: 8, method: fit, exchange: 3}\n"),
             Contains("pack.exchange is not yet supported"));
  CHECK_THAT(error("pack: {tensor: run, size: 8, method: fit, multiple: 3}\n"),
             Contains("pack.multiple is not yet supported"));
  CHECK_THAT(error(pack + "filter: {where: \"pack.pieces > 1\"}\n"), Contains("pack.pieces"));
  CHECK_THAT(error("filter: {where: \"value > 90\"}\n" + pack),
             Contains("pack.tensor: 0 rows: 0 documents"));
  CHECK_THAT(error("pack: {tensor: run, size: 3, method: fit, above: drop}\n"
                   "filter: {where: \"value > 2 && value != 3\"}\n"),
             Contains("pack.tensor: 0 rows: 2 documents, 2 above 3"));
}

}  // namespace
}  // namespace millrace::test
