// Plans have the packed rows that are recorded, in the recorded orders.

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/batch/batch.h"
#include "server/plan/plan_library.h"
#include "tests/support/number_kind.h"
#include "tests/unit/server/plan/pack_plans.h"
#include "tests/unit/server/plan/packed/golden_packs.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using nlohmann::json;

/// The lengths of documents; null: one that cannot be built.
std::vector<std::int64_t> RunsOf(const json& lengths) {
  std::vector<std::int64_t> runs;
  for (const json& length : lengths) runs.push_back(length.is_null() ? kNoRun : length.get<int>());
  return runs;
}

json WhereOf(const Plan& plan, std::uint64_t document) {
  const auto found = plan.source()->packs()->RowsOf(ExampleId(document));
  REQUIRE(found.ok());
  if (found->why != RowsOfDocument::Why::kHasRows) return std::string(WhyNoRow(found->why));
  json rows = json::array();
  for (const RowsOfDocument::Run& run : found->runs) {
    for (std::uint64_t i = 0; i < run.count; ++i) rows.push_back(run.first + i);
  }
  return rows;
}

TEST_CASE("a plan has the rows that are recorded", "[plan][golden][pack]") {
  for (const auto& [params, expected] : GoldenPackCases("pack")) {
    if (params.contains("before") || params.contains("after")) continue;  // below
    INFO(params.dump());
    PackPlans plans(RunsOf(params["lengths"]));
    const std::string pack = PackText(params, "run", "[run.minus]");
    if (expected["units"] == 0) {
      CHECK_THAT(plans.ErrorOf(pack + kFiveEach), Contains("pack.tensor: 0 rows: "));
      continue;
    }
    const auto plan = plans.MustCompile(
        pack + kFiveEach +
        "output: [run, run.minus, example_id, pack.lengths, pack.documents, pack.begins, "
        "pack.label]\n");
    CHECK(plan->source()->examples() == expected["units"].get<std::uint64_t>());
    CHECK(CheckedPackedRows(plans, *plan) == NumbersBelow(plan->source()->examples()));
    std::vector<PlainRow> rows;
    for (std::uint64_t row = 0; row < plan->source()->examples(); ++row) {
      rows.push_back(PlainPiecesOf(*plan, row));
    }
    CHECK(json(rows) == expected["rows"]);
    for (std::size_t i = 0; i < params["lengths"].size(); ++i) {
      INFO("document " << i);
      CHECK(WhereOf(*plan, i) == expected["where"][std::to_string(i)]);
    }
    CHECK(plan->source()->packs()->summary().left_out == expected["left_out"].get<std::uint64_t>());
  }
}

TEST_CASE("rows come in the recorded order in all forms of orders", "[plan][golden][pack]") {
  for (const auto& [params, expected] : GoldenPackCases("order")) {
    INFO(params.dump());
    PackPlans plans(RunsOf(params["lengths"]));
    const std::string form = params["order"];
    std::string text = PackText(params, "run");
    text += fmt::format("shuffle: {{seed: {}", SeedText(params["order_seed"]));
    if (form == "block") {
      text += fmt::format(", block: {}, window: {}", params["block"].dump(),
                          params["order_window"].dump());
    }
    text += "}\n";
    std::string by = params.value("by", "");
    if (by == "T.length") by = "run.length";
    const std::string keep = params.value("keep", true) ? "keep" : "drop";
    if (form == "bucket") {
      text += fmt::format("batch: {{bucket: {{by: {}, bounds: {}, size: {}}}, remainder: {}}}\n",
                          by, params["bounds"].dump(), params["batch"].dump(), keep);
    } else if (form == "balance") {
      text += fmt::format("batch: {{size: {}, remainder: {}}}\nbalance: {{by: {}, group: {}}}\n",
                          params["batch"].dump(), keep, by, params["group"].dump());
    } else {
      text += kFiveEach;
    }
    const auto plan = plans.MustCompile(text);
    CHECK(plan->planned_order().order->units() == expected["units"].get<std::uint64_t>());
    if (expected.contains("columns")) {
      const auto column = plan->source()->FindColumn(by);
      REQUIRE(column.ok());
      std::vector<std::int64_t> values(plan->source()->examples());
      const ColumnValues wanted{*column, values};
      plan->source()->ReadColumns(ExampleId(0), {&wanted, 1});
      CHECK(json(values) == expected["columns"]);
    }
    const bool batches = expected.contains("rows");
    for (const auto& [epoch, recorded] : expected[batches ? "rows" : "order"].items()) {
      json got = json::array();
      for (std::uint64_t unit = 0; unit < plan->planned_order().order->units(); ++unit) {
        for (const ExampleId id : plan->ExamplesOf(std::stoull(epoch), {unit, 1})) {
          if (!batches) got.push_back(id.value());
          if (!batches) continue;
          if (got.size() <= unit) got.push_back(json::array());
          got[unit].push_back(id.value());
        }
      }
      CHECK(got == recorded);
      CHECK(CheckedPackedRows(plans, *plan, std::stoull(epoch)).size() ==
            plan->planned_order().order->rows());
    }
  }
}

TEST_CASE("a mix draws the recorded rows from branches of rows", "[plan][golden][pack][mix]") {
  for (const auto& [params, expected] : GoldenPackCases("mix")) {
    INFO(params.dump());
    const TempDir dir;
    PlanLibraryOptions options;
    options.kinds = ProductKinds().With(MakeNumberKind());
    options.cache_dir = dir / "cache";
    options.index_threads = 1;
    std::string text = "millrace: 1\nbranches:\n";
    std::string weights;
    for (std::size_t i = 0; i < params["branches"].size(); ++i) {
      const json& branch = params["branches"][i];
      const std::string id = "b" + std::to_string(i);
      WriteNumbers(dir / id, RunsOf(branch["lengths"]));
      options.datasets[id].dir = dir / id;
      text +=
          fmt::format("  {}:\n    dataset: {}\n    source: runs\n    {}    shuffle: {{seed: {}}}\n",
                      id, id, PackText(branch, "run"), SeedText(params["shuffle_seed"]));
      weights += fmt::format("{}{}: {}", i == 0 ? "" : ", ", id, params["weights"][i].dump());
    }
    text += fmt::format("mix: {{weights: {{{}}}, seed: {}, epoch: {}}}\n{}", weights,
                        SeedText(params["mix_seed"]), params["epoch"].dump(), kFiveEach);
    PlanLibrary library(std::move(options), MakeNullLogger());
    const auto plan = library.Compile(PipelineSource{.yaml = text, .variant = {}, .overrides = {}});
    INFO(text << plan.status().message());
    REQUIRE(plan.ok());
    const auto& branches = (*plan)->source()->branches();
    for (std::size_t i = 0; i < branches.size(); ++i) {
      CHECK(branches[i].source->examples() == expected["rows_of_branches"][i].get<std::uint64_t>());
    }
    for (const auto& [epoch, recorded] : expected["order"].items()) {
      std::vector<std::vector<std::uint64_t>> got;
      for (const auto& batch : ReadEpoch(**plan, std::stoull(epoch), 1)) {
        for (std::size_t row = 0; row < batch->examples(); ++row) {
          const ExampleId id = batch->info().example_ids[row];
          const std::size_t branch = BranchOf(branches, id);
          got.push_back({branch, id.value() - branches[branch].first});
          // The pieces of the row in its own branch.
          const auto pieces = branches[branch].source->packs()->PiecesOf(
              ExampleId(id.value() - branches[branch].first));
          std::vector<std::int64_t> run, lengths;
          for (const RowPiece& piece : *pieces) {
            const auto number =
                RunsOf(params["branches"][branch]["lengths"])[piece.document.value()];
            for (std::uint64_t j = 0; j < piece.length; ++j) {
              run.push_back(RunElement(number, static_cast<std::int64_t>(piece.begin + j)));
            }
            lengths.push_back(static_cast<std::int64_t>(piece.length));
          }
          CHECK(RaggedRow(*batch, "run", "run_splits", row) == run);
          CHECK(RaggedRow(*batch, "pack.lengths", "pack.lengths_splits", row) == lengths);
        }
      }
      CHECK(json(got) == recorded);
    }
  }
}

}  // namespace
}  // namespace millrace::test
