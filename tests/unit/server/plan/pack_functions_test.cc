// Plans that pack what functions of plugins make of documents, or of rows.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/records/generator/records_generator.h"
#include "server/plan/cache/built_examples.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/plugin_fixture.h"
#include "tests/unit/server/kinds/tokens/tokens_folder.h"
#include "tests/unit/server/plan/pack_plans.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Values = std::vector<std::int64_t>;

const std::string kThreeEach = "batch: {size: 3, remainder: keep}\n";
constexpr std::string_view kModule = R"(
    __all__ = ["Docs", "Noisy", "twice", "weights", "longer", "careful", "noise"]

    class Docs:
        def __init__(self, lengths):
            self.lengths = lengths

        def __len__(self):
            return len(self.lengths)

        def spec(self):
            return {"t": "int32[*]", "mask": "uint8[*]"}

        def __getitem__(self, i):
            n = self.lengths[i]
            if n < 0:
                raise ValueError("example %d is empty" % i)
            return {"t": np.arange(n, dtype=np.int32) + 100 * i, "mask": np.full(n, i, np.uint8)}

    class Noisy(Docs):
        def example(self, i, epoch, rng):
            return self[i]

    def twice(run):
        return np.repeat(np.asarray(run, np.int64), 2)

    def weights(run):
        if len(run) == 5:
            raise ValueError("five")
        return np.asarray(run, np.float32) / 2

    def longer(run):
        return np.zeros(len(run) + (len(run) == 3), np.int64)

    def careful(run):
        if len(run) == 4:
            raise LookupError("four")
        return np.asarray(run, np.int64)

    def noise(run, rng):
        return rng.integers(0, 9, len(run))
)";

/// Plans over `t`, documents of 4, 3, 5 and 2 tokens; over `r`, 60 records; and over the classes of
/// the module.
class FunctionPacks {
 public:
  FunctionPacks() : fixture_(kModule) {
    Documents documents;
    for (const std::int64_t length : {4, 3, 5, 2}) {
      Tokens& tokens = documents.emplace_back();
      for (std::int64_t i = 0; i < length; ++i) tokens.push_back(10 * length + i);
    }
    std::filesystem::create_directories(dir_ / "t");
    WritePair(dir_ / "t" / "a", DType::kUint16, documents);
    GenerateRequest records;
    records.params = Params(
        {{"records", std::int64_t{60}}, {"files", std::int64_t{3}}, {"floats", std::int64_t{9}}});
    std::filesystem::create_directories(dir_ / "r");
    REQUIRE(GenerateRecords(dir_ / "r", records).ok());
    PluginRegistryOptions registry;
    registry.plugins.emplace("plugin", fixture_.options().plugin);
    registry.copies = fixture_.copies();
    PlanLibraryOptions options;
    options.plugins = std::make_shared<PluginRegistry>(std::move(registry));
    options.kinds = ProductKinds(options.plugins);
    options.datasets["t"].dir = dir_ / "t";
    options.datasets["r"].dir = dir_ / "r";
    options.datasets["plugin:plugin"] = {
        .dir = fixture_.folder(), .index_file = {}, .kind = "python"};
    options.cache_dir = dir_ / "cache";
    options.examples = kept_;
    options.index_threads = 1;
    library_ = std::make_unique<PlanLibrary>(std::move(options), MakeNullLogger());
  }

  BuiltExamples& kept() { return *kept_; }
  /// How many layouts of rows are kept on disk of a dataset.
  int KeptLayouts(const std::string& dataset) const {
    int layouts = 0;
    for (const auto& folder : library_->ColumnFoldersOf(dataset)) {
      if (!std::filesystem::exists(folder)) continue;
      for (const auto& file : std::filesystem::directory_iterator(folder)) {
        if (file.path().extension() == ".rows") ++layouts;
      }
    }
    return layouts;
  }
  Result<std::shared_ptr<const Plan>> Compile(const std::string& source, const std::string& more) {
    PipelineSource text;
    text.yaml = "millrace: 1\nsource: " + source + "\n" + more + kThreeEach;
    return library_->Compile(text);
  }
  std::shared_ptr<const Plan> MustCompile(const std::string& source, const std::string& more) {
    const auto plan = Compile(source, more);
    INFO(more << plan.status().message());
    REQUIRE(plan.ok());
    return *plan;
  }
  std::string ErrorOf(const std::string& source, const std::string& more) {
    const auto plan = Compile(source, more);
    REQUIRE_FALSE(plan.ok());
    return plan.status().message();
  }

 private:
  PluginFixture fixture_;
  TempDir dir_;
  std::shared_ptr<BuiltExamples> kept_ = std::make_shared<BuiltExamples>(std::uint64_t{16} << 20);
  std::unique_ptr<PlanLibrary> library_;
};

const std::string kTokens = "tokens\ndataset: t";
const std::string kRecords = "{records: {s: int64, x: 'float32[*]'}}\ndataset: r";

std::string FunctionText(const std::string& name, const std::string& input,
                         const std::string& type = "int64[*]", const std::string& more = "") {
  return "tensors: {" + name + ": {python: 'plugin:" + name + "', inputs: {run: " + input +
         "}, type: '" + type + "'" + more + "}}\n";
}

/// All values of a tensor in an epoch, row by row.
std::vector<Values> RowsOf(const Plan& plan, const char* path, const char* splits) {
  std::vector<Values> rows;
  for (const auto& batch : ReadEpoch(plan, 0, 1)) {
    for (std::size_t row = 0; row < batch->examples(); ++row) {
      rows.push_back(RaggedRow(*batch, path, splits, row));
    }
  }
  return rows;
}

/// The documents in each row.
std::vector<Values> DocumentsOf(const Plan& plan) {
  std::vector<Values> rows;
  for (std::uint64_t row = 0; row < plan.source()->examples(); ++row) {
    Values& documents = rows.emplace_back();
    const auto pieces = plan.source()->packs()->PiecesOf(ExampleId(row));
    REQUIRE(pieces.ok());
    for (const RowPiece& piece : *pieces) {
      documents.push_back(static_cast<std::int64_t>(piece.document.value()));
    }
  }
  return rows;
}

std::string_view WhyNone(const Plan& plan, std::uint64_t document) {
  return WhyNoRow(plan.source()->packs()->RowsOf(ExampleId(document))->why);
}

TEST_CASE("excluded documents whose lengths are known before leave the kept rows as they are",
          "[plan][pack]") {
  FunctionPacks plans;
  const std::string pack = "pack: {tensor: tokens, size: 10, method: fit}\n";
  const auto all = plans.MustCompile(kTokens, pack);
  const auto without = plans.MustCompile(kTokens, pack + "exclude: {examples: [0]}\n");
  CHECK(plans.KeptLayouts("t") == 1);
  CHECK(DocumentsOf(*without) == DocumentsOf(*all));
}

TEST_CASE("rows are filled with what a function makes of documents", "[plan][pack][plugin_plan]") {
  FunctionPacks plans;
  const auto plan = plans.MustCompile(kTokens, "pack: {tensor: twice, size: 10, method: fit}\n" +
                                                   FunctionText("twice", "tokens") +
                                                   "output: [twice, pack.lengths]\n");
  CHECK(RowsOf(*plan, "pack.lengths", "pack.lengths_splits") ==
        std::vector<Values>{{8}, {6, 4}, {10}});
  CHECK(RowsOf(*plan, "twice", "twice_splits") ==
        std::vector<Values>{{40, 40, 41, 41, 42, 42, 43, 43},
                            {30, 30, 31, 31, 32, 32, 20, 20, 21, 21},
                            {50, 50, 51, 51, 52, 52, 53, 53, 54, 54}});
  CHECK(plan->source()->FindColumn("twice.length").ok());
  CHECK_FALSE(plan->source()->FindColumn("tokens.length").ok());
}

TEST_CASE("a function without chance alone fills rows, of examples that stay as they are",
          "[plan][pack][plugin_plan]") {
  FunctionPacks plans;
  const auto error = [&](const std::string& source, const std::string& pack) {
    return plans.ErrorOf(source, "pack: {" + pack + ", size: 8, method: fit}\n");
  };
  CHECK_THAT(plans.ErrorOf(kTokens, "pack: {tensor: noise, size: 8, method: fit}\n" +
                                        FunctionText("noise", "tokens")),
             Contains("pack.tensor: ") && Contains("noise"));
  CHECK_THAT(plans.ErrorOf(kTokens,
                           "pack: {tensor: more, size: 8, method: fit}\n"
                           "tensors: {more: {expr: \"tokens + 1\"}}\n"),
             Contains("pack.tensor: the source 'tokens' has no tensor 'more'; expected one of "
                      "tokens"));
  CHECK_THAT(error("{python: 'plugin:Noisy', args: {lengths: [3, 4]}}", "tensor: t"),
             Contains("pack: the source 'python' makes its examples anew in every epoch"));
}

TEST_CASE("a cache beside packs keeps documents, and the bytes are those without it",
          "[plan][pack][plugin_plan][cached]") {
  FunctionPacks plans;
  const std::string more =
      "pack: {tensor: twice, size: 10, method: fit, seed: 2}\nshuffle: {seed: 3}\n" +
      FunctionText("twice", "x") + "output: [twice, pack.lengths, pack.label]\n";
  const auto bytes = [](const Plan& plan) {
    std::vector<std::vector<std::byte>> all;
    for (const std::uint64_t epoch : {0, 1}) {
      for (const auto& batch : ReadEpoch(plan, epoch, 1)) {
        all.emplace_back(batch->bytes().begin(), batch->bytes().end());
      }
    }
    return all;
  };
  const auto expected = bytes(*plans.MustCompile(kRecords, more));
  CHECK(plans.kept().stats().builds == 0);
  const auto plan = plans.MustCompile(kRecords, more + "cache: {examples: memory}\n");
  CHECK((bytes(*plan) == expected));
  // Lengths were measured before, so that each document with elements was built once.
  const PackSummary& summary = plan->source()->packs()->summary();
  CHECK(summary.above > 0);
  CHECK(plans.kept().stats().builds == summary.documents - summary.empty);
  CHECK((bytes(*plan) == expected));
  CHECK(plans.kept().stats().builds == summary.documents - summary.empty);
}

TEST_CASE("rows and what is kept follow from all that a function's tensor is made of",
          "[plan][pack][plugin_plan][cached]") {
  FunctionPacks plans;
  const auto longest = [&](const std::string& range) {
    const auto plan = plans.MustCompile(
        kRecords,
        "pack: {tensor: twice, size: 20, method: fit}\ncache: {examples: memory}\n"
        "tensors:\n  some: {slice: x, range: [0, " +
            range +
            "]}\n  twice: {python: 'plugin:twice', inputs: {run: some}, type: 'int64[*]'}\n"
            "output: [twice, pack.lengths]\n");
    std::int64_t most = 0;
    for (const Values& row : RowsOf(*plan, "pack.lengths", "pack.lengths_splits")) {
      for (const std::int64_t length : row) most = std::max(most, length);
    }
    return most;
  };
  CHECK(longest("3") == 6);
  CHECK(longest("1") == 2);
  CHECK(longest("3") == 6);
}

TEST_CASE("a document that a function drops when its row is built leaves the row",
          "[plan][pack][plugin_plan]") {
  FunctionPacks plans;
  const std::string pack = "pack: {tensor: tokens, with: [weights], size: 8, method: fit}\n";
  const auto plan = plans.MustCompile(
      kTokens, pack + FunctionText("weights", "tokens", "float32[*]", ", drop: [ValueError]") +
                   "output: [tokens, weights, pack.lengths, pack.documents]\n");
  // The lengths of tokens are known without a build, so that document 2 has its place.
  CHECK(DocumentsOf(*plan) == std::vector<Values>{{0, 3}, {1, 2}});
  CHECK(RowsOf(*plan, "pack.documents", "pack.lengths_splits") == std::vector<Values>{{0, 3}, {1}});
  CHECK(RowsOf(*plan, "tokens", "tokens_splits") ==
        std::vector<Values>{{40, 41, 42, 43, 20, 21}, {30, 31, 32}});
  CHECK(plan->source()->examples() == 2);

  const auto fails =
      plans.MustCompile(kTokens, pack + FunctionText("weights", "tokens", "float32[*]"));
  const auto batch = fails->Batch(0, {0, 2}, *fails->NewScratch());
  CHECK_THAT(batch.status().message(),
             Contains("example 2: ValueError: five") && Contains("exclude: {examples: [2]}"));
  const auto without = plans.MustCompile(
      kTokens, pack + FunctionText("weights", "tokens", "float32[*]") +
                   "exclude: {examples: [2]}\noutput: [tokens, weights, pack.documents]\n");
  CHECK(RowsOf(*without, "pack.documents", "pack.lengths_splits") ==
        std::vector<Values>{{0, 3}, {1}});
}

TEST_CASE("a document that a function drops when it is measured is in no row",
          "[plan][pack][plugin_plan]") {
  FunctionPacks plans;
  const auto plan = plans.MustCompile(
      kTokens, "pack: {tensor: careful, size: 8, method: fit}\n" +
                   FunctionText("careful", "tokens", "int64[*]", ", drop: [LookupError]"));
  CHECK(DocumentsOf(*plan) == std::vector<Values>{{1, 2}, {3}});
  CHECK(WhyNone(*plan, 0) == "not built");
  CHECK(plan->source()->packs()->summary().not_built == 1);
}

TEST_CASE("a document that cannot be measured is named with the line that leaves it out",
          "[plan][pack][plugin_plan]") {
  FunctionPacks plans;
  const std::string pack = "pack: {tensor: careful, size: 8, method: fit}\n";
  const std::string function = FunctionText("careful", "tokens");
  const auto refused = [&] {
    CHECK_THAT(plans.ErrorOf(kTokens, pack + function),
               Contains("example 0: LookupError: four") && Contains("exclude: {examples: [0]}"));
  };
  refused();
  const auto plan = plans.MustCompile(kTokens, pack + function + "exclude: {examples: [0, 3]}\n");
  CHECK(DocumentsOf(*plan) == std::vector<Values>{{1, 2}, {3}});
  CHECK(WhyNone(*plan, 0) == "not built");
  // Without the line it is met again, also by pipelines that differ in what they drop.
  refused();
  CHECK(plans
            .Compile(kTokens,
                     pack + FunctionText("careful", "tokens", "int64[*]", ", drop: [LookupError]"))
            .ok());
  refused();
}

TEST_CASE("a document of a class that cannot be measured is left out alone",
          "[plan][pack][plugin_plan]") {
  FunctionPacks plans;
  const std::string pack = "pack: {tensor: t, with: [mask], size: 6, method: fit}\n";
  const std::string docs = "{python: 'plugin:Docs', args: {lengths: [2, -1, 3, 5, 1]}";
  CHECK_THAT(plans.ErrorOf(docs + "}", pack),
             Contains("ValueError: example 1 is empty") && Contains("exclude: {examples: [1]}"));
  const auto excludes = plans.MustCompile(docs + "}", pack + "exclude: {examples: [1]}\n");
  const auto drops = plans.MustCompile(docs + ", drop: [ValueError]}", pack);
  for (const auto& plan : {excludes, drops}) {
    CHECK(DocumentsOf(*plan) == std::vector<Values>{{0, 2}, {3, 4}});
    CHECK(WhyNone(*plan, 1) == "not built");
    CHECK(RowsOf(*plan, "t", "t_splits") ==
          std::vector<Values>{{0, 1, 200, 201, 202}, {300, 301, 302, 303, 304, 400}});
    CHECK(RowsOf(*plan, "mask", "mask_splits") ==
          std::vector<Values>{{0, 0, 2, 2, 2}, {3, 3, 3, 3, 3, 4}});
  }
  CHECK_THAT(plans.ErrorOf(docs + "}", pack), Contains("exclude: {examples: [1]}"));
  // Another example that is left out does not hide this one.
  CHECK_THAT(plans.ErrorOf(docs + "}", pack + "exclude: {examples: [3]}\n"),
             Contains("exclude: {examples: [1]}"));
}

TEST_CASE("a bad record that would never be met is named, unless the pipeline leaves it out",
          "[plan][pack]") {
  FunctionPacks plans;
  const std::string pack = "pack: {tensor: x, size: 8, method: fit}\n";
  const auto source = [](const std::string& on_error) {
    return "{records: {s: int64, x: 'float32[*, 2]'}, on_error: " + on_error + "}\ndataset: r";
  };
  const auto drops = plans.MustCompile(source("drop"), pack);
  std::vector<std::uint64_t> bad;
  for (std::uint64_t i = 0; i < 60; ++i) {
    if (WhyNone(*drops, i) == "not built") bad.push_back(i);
  }
  REQUIRE(bad.size() > 10);
  CHECK(drops->source()->packs()->summary().not_built == bad.size());
  const auto without = [](const std::vector<std::uint64_t>& ids) {
    return fmt::format("exclude: {{examples: [{}]}}\n", fmt::join(ids, ", "));
  };
  CHECK_THAT(plans.ErrorOf(source("fail"), pack), Contains("exclude: {examples: ["));
  std::vector<std::uint64_t> others = bad;
  others.erase(others.begin() + 3);
  CHECK_THAT(plans.ErrorOf(source("fail"), pack + without(others)),
             Contains(fmt::format("`exclude: {{examples: [{}]}}`", bad[3])));
  const auto excludes = plans.MustCompile(source("fail"), pack + without(bad));
  CHECK(DocumentsOf(*excludes) == DocumentsOf(*drops));
  CHECK(plans.Compile(source("fail"), pack).status().code() == StatusCode::kDataLoss);
}

TEST_CASE("a tensor of another length than the one it goes with ends the job with both lengths",
          "[plan][pack][plugin_plan]") {
  FunctionPacks plans;
  const auto plan =
      plans.MustCompile(kTokens, "pack: {tensor: tokens, with: [longer], size: 8, method: fit}\n" +
                                     FunctionText("longer", "tokens"));
  const auto batch = plan->Batch(0, {0, 2}, *plan->NewScratch());
  CHECK(batch.status().code() == StatusCode::kDataLoss);
  CHECK_THAT(batch.status().message(),
             Contains("document 1: longer has 4 elements, and tokens has 3"));
}

TEST_CASE("functions read rows, and their labels", "[plan][pack][plugin_plan]") {
  FunctionPacks plans;
  const auto plan =
      plans.MustCompile(kTokens, "pack: {tensor: tokens, size: 8, method: fit}\n" +
                                     FunctionText("twice", "pack.label") + "output: [twice]\n");
  CHECK(RowsOf(*plan, "twice", "twice_splits").front() ==
        Values{41, 41, 42, 42, 43, 43, -100, -100, 21, 21, -100, -100});
  const auto noisy =
      plans.MustCompile(kTokens, "pack: {tensor: tokens, size: 8, method: fit}\n" +
                                     FunctionText("noise", "tokens") + "output: [noise]\n");
  CHECK(noisy->source()->facts().varies);
  CHECK(RowsOf(*noisy, "noise", "noise_splits").front().size() == 6);
}

}  // namespace
}  // namespace millrace::test
