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
#include "tests/unit/server/plan/number_plans.h"
#include "tests/unit/server/plan/pack/plain_packs.h"
#include "tests/unit/server/plan/packed/golden_packs.h"
#include "tests/unit/server/plan/slices.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using nlohmann::json;
using Runs = std::vector<std::int64_t>;
/// Document, begin and length.
using PlainPiece = std::vector<std::uint64_t>;
using PlainRow = std::vector<PlainPiece>;

const std::string kBatches = "batch: {size: 5, remainder: keep}\n";
/// A run that cannot be built.
constexpr std::int64_t kNoRun = kLongestRun + 1;

/// Plans over runs of these lengths, which are documents.
class PackPlans : public NumberPlans {
 public:
  explicit PackPlans(const Runs& lengths) : NumberPlans(lengths, "runs") {}
};

Runs RunsOf(const json& lengths) {
  Runs runs;
  for (const json& length : lengths) runs.push_back(length.is_null() ? kNoRun : length.get<int>());
  return runs;
}

/// The pieces of a row, as its source tells them.
PlainRow PiecesOf(const Plan& plan, std::uint64_t row) {
  const auto pieces = plan.source()->packs()->PiecesOf(ExampleId(row));
  REQUIRE(pieces.ok());
  PlainRow plain;
  for (const RowPiece& piece : *pieces) {
    plain.push_back({piece.document.value(), piece.begin, piece.length});
  }
  return plain;
}

std::vector<std::int64_t> ValuesOf(const PackedBatch& batch, const char* path, const char* splits,
                                   std::size_t row) {
  std::vector<std::int64_t> values;
  const std::int64_t end = batch.ValueAt(*batch.Find(splits), row + 1);
  for (std::int64_t i = batch.ValueAt(*batch.Find(splits), row); i < end; ++i) {
    values.push_back(batch.ValueAt(*batch.Find(path), static_cast<std::size_t>(i)));
  }
  return values;
}

/// Checks all tensors of a row of a batch against its pieces.
void CheckRow(const PackPlans& plans, const PackedBatch& batch, std::size_t row,
              const PlainRow& pieces) {
  std::vector<std::int64_t> run, minus, lengths, documents, begins, next;
  for (const PlainPiece& piece : pieces) {
    const std::int64_t number = plans[ExampleId(piece[0])];
    const auto begin = static_cast<std::int64_t>(piece[1]);
    const std::int64_t end = begin + static_cast<std::int64_t>(piece[2]);
    for (std::int64_t i = begin; i < end; ++i) {
      run.push_back(RunElement(number, i));
      minus.push_back(-RunElement(number, i));
    }
    documents.push_back(static_cast<std::int64_t>(piece[0]));
    begins.push_back(begin);
    lengths.push_back(end - begin);
    next.push_back(end == number ? -100 : RunElement(number, end));
  }
  CHECK(ValuesOf(batch, "run", "run_splits", row) == run);
  CHECK(ValuesOf(batch, "pack.lengths", "pack.lengths_splits", row) == lengths);
  if (batch.Find("run/minus")) CHECK(ValuesOf(batch, "run/minus", "run_splits", row) == minus);
  const auto check = [&](const char* path, const std::vector<std::int64_t>& expected) {
    if (batch.Find(path)) CHECK(ValuesOf(batch, path, "pack.lengths_splits", row) == expected);
  };
  check("pack.documents", documents);
  check("pack.begins", begins);
  check("pack.next", next);
  CHECK(batch.ValueAt(*batch.Find("example_id"), row) ==
        static_cast<std::int64_t>(batch.info().example_ids[row].value()));
}

/// The numbers of all rows of an epoch, after a check of what they have.
std::vector<std::uint64_t> CheckedRows(const PackPlans& plans, const Plan& plan,
                                       std::uint64_t epoch = 0, std::uint32_t world_size = 1) {
  std::vector<std::uint64_t> rows;
  for (const auto& batch : ReadEpoch(plan, epoch, world_size)) {
    CHECK(batch->info().dropped.empty());
    for (std::size_t row = 0; row < batch->examples(); ++row) {
      const std::uint64_t id = batch->info().example_ids[row].value();
      CheckRow(plans, *batch, row, PiecesOf(plan, id));
      rows.push_back(id);
    }
  }
  return rows;
}

std::vector<std::uint64_t> UpTo(std::uint64_t count) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(i);
  return all;
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
      CHECK_THAT(plans.ErrorOf(pack + kBatches), Contains("pack.tensor: 0 rows: "));
      continue;
    }
    const auto plan = plans.MustCompile(
        pack + kBatches +
        "output: [run, run.minus, example_id, pack.lengths, pack.documents, pack.begins, "
        "pack.label]\n");
    CHECK(plan->source()->examples() == expected["units"].get<std::uint64_t>());
    CHECK(CheckedRows(plans, *plan) == UpTo(plan->source()->examples()));
    std::vector<PlainRow> rows;
    for (std::uint64_t row = 0; row < plan->source()->examples(); ++row) {
      rows.push_back(PiecesOf(*plan, row));
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
      text += kBatches;
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
      CHECK(CheckedRows(plans, *plan, std::stoull(epoch)).size() ==
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
                        SeedText(params["mix_seed"]), params["epoch"].dump(), kBatches);
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
          CHECK(ValuesOf(*batch, "run", "run_splits", row) == run);
          CHECK(ValuesOf(*batch, "pack.lengths", "pack.lengths_splits", row) == lengths);
        }
      }
      CHECK(json(got) == recorded);
    }
  }
}

TEST_CASE("rows have the documents that split and filter select, and exclude leaves their places",
          "[plan][pack]") {
  Runs lengths;
  for (std::int64_t i = 0; i < 200; ++i) lengths.push_back(i * 37 % 50);
  PackPlans plans(lengths);
  const std::string pack = "pack: {tensor: run, size: 40, method: fit, window: 16, seed: 3}\n";
  const std::string odd = "filter: {where: \"odd\"}\nshuffle: {seed: 1}\n";
  const auto plan = plans.MustCompile(pack + odd + kBatches);
  const auto& packs = *plan->source()->packs();
  std::map<std::uint64_t, std::uint64_t> elements;
  for (std::uint64_t row = 0; row < plan->source()->examples(); ++row) {
    for (const PlainPiece& piece : PiecesOf(*plan, row)) elements[piece[0]] += piece[2];
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const bool is_odd = lengths[i] % 2 == 1;
    CHECK(elements[i] == static_cast<std::uint64_t>(is_odd ? lengths[i] : 0));
    if (!is_odd) CHECK(WhereOf(*plan, i) == "filtered");
  }
  CHECK(packs.summary().documents == 100);
  CHECK(packs.summary().filtered == 100);
  for (const std::uint32_t world_size : {1u, 2u, 3u, 7u}) {
    std::vector<std::uint64_t> rows = CheckedRows(plans, *plan, 5, world_size);
    std::sort(rows.begin(), rows.end());
    CHECK(rows == UpTo(plan->source()->examples()));
  }

  // Without two documents, all others stay where they were.
  const PlainRow first = PiecesOf(*plan, 0);
  const std::uint64_t lost = first.back()[0];
  const auto less =
      plans.MustCompile(pack + odd + fmt::format("exclude: {{examples: [{}]}}\n", lost) + kBatches);
  CHECK(less->facts().order_fingerprint() == plan->facts().order_fingerprint());
  CHECK(PiecesOf(*less, 0) == first);
  const auto batch = less->BatchOf(std::vector<ExampleId>{ExampleId(0)}, 0, *less->NewScratch());
  REQUIRE(batch.ok());
  PlainRow kept = first;
  std::erase_if(kept, [&](const PlainPiece& piece) { return piece[0] == lost; });
  REQUIRE(kept.size() < first.size());
  CheckRow(plans, **batch, 0, kept);
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
    for (const PlainPiece& piece : PiecesOf(*plan, row)) expected += piece[0] % 3 == 0 ? 1 : 0;
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
    return plans.MustCompile(more + kBatches)->facts().fields().spec.token_tensor();
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
      "pack: {tensor: run, size: 8, method: concat}\nexclude: {examples: [0, 1, 2]}\n" + kBatches);
  const auto batch = ReadEpoch(*plan, 0, 1).front();
  REQUIRE(batch->info().dropped.size() == 1);
  CHECK(batch->info().dropped[0].id == ExampleId(0));
  CHECK(batch->info().dropped[0].reason == DropReason::kExcluded);
  // Document 2 has a piece in the other row, too.
  CHECK(batch->info().lost_pieces == std::vector<LostPieces>{{DropReason::kExcluded, 4}});
  CHECK(batch->examples() == 1);
  CheckRow(plans, *batch, 0, {{3, 0, 7}});
}

TEST_CASE("rows are kept beside the columns, and found by the next process", "[plan][pack]") {
  PackPlans plans({4, 3, 2, 7});
  const auto plan = plans.MustCompile("pack: {tensor: run, size: 8, method: fit}\n" + kBatches);
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
  const auto error = [&](const std::string& more) { return plans.ErrorOf(more + kBatches); };
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
    const auto plan = plans.MustCompile("pack: {tensor: run, " + keys + "}\n" + kBatches);
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
    const auto plan = plans.CompileText(text + kBatches);
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
                           "}\nmix: {weights: {a: 1, b: 1}, epoch: 4}\n" + kBatches;
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
      RC_ASSERT(PiecesOf(*plan, row) == expected[row]);
    }
    std::vector<std::uint64_t> rows =
        CheckedRows(plans, *plan, 1, *rc::gen::element<std::uint32_t>(1, 2, 3));
    std::sort(rows.begin(), rows.end());
    RC_ASSERT(rows == UpTo(expected.size()));
  });
}

}  // namespace
}  // namespace millrace::test
