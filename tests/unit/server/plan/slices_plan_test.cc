// Batches that several threads build in slices have the bytes of those that one thread builds.
#include <catch2/catch.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "server/catalog/product_kinds.h"
#include "server/kinds/coq/generator/generator.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "server/kinds/records/generator/records_generator.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/number_kind.h"
#include "tests/support/plugin_fixture.h"
#include "tests/unit/server/plan/number_plans.h"
#include "tests/unit/server/plan/slices.h"

namespace millrace::test {
namespace {

constexpr std::string_view kSlicedPlugin = R"(
    __all__ = ["Source", "Grouped", "double", "mean", "noise", "count", "first"]

    class Source:
        def __init__(self, size=40, bad=()):
            self.size = size
            self.bad = bad

        def __len__(self):
            return self.size

        def spec(self):
            return {"n": "int64", "x": "float32[*]"}

        def example(self, i, epoch, rng):
            if i in self.bad:
                raise ValueError("example %d is empty" % i)
            if i % 7 == 3:
                raise LookupError("example %d is dropped" % i)
            return {"n": 3 * i, "x": rng.random(i % 4, np.float32)}

    class Grouped:
        def __len__(self):
            return 40

        def spec(self):
            return {"n": "int64", "x": "float32[*]"}

        def __getitem__(self, i):
            return {"n": 3 * i, "x": np.full(i % 4, i, np.float32)}

        def __getitems__(self, ids):
            return [self[i] for i in ids]

    def double(x):
        return np.concatenate([x, x])

    def noise(n, rng):
        return rng.integers(0, 1000)

    def count(x):
        if len(x) % 3 == 0:
            raise LookupError("%d elements" % len(x))
        return len(x)

    def first(x):
        return x[0]

    def mean(n):
        return np.full(len(n), n.mean(), np.float32)
)";

/// Datasets of each kind.
class SlicedWorld {
 public:
  SlicedWorld() : plugin_(kSlicedPlugin) {
    std::vector<std::int64_t> numbers(60);
    std::iota(numbers.begin(), numbers.end(), 1);
    numbers[7] = numbers[20] = kLongestRun + 1;  // dropped
    WriteNumbers(dir_ / "n", numbers);
    WriteNumbers(dir_ / "m", {100, 200, 300, 301, 302});
    GraphGeneratorReport report;
    const GraphGeneratorOptions graph = {.nodes = 200,
                                         .features = 2,
                                         .edge_features = 3,
                                         .node_labels = 4,
                                         .edge_labels = 2,
                                         .roots = 50,
                                         .graphs = 10};
    REQUIRE(GenerateGraph(dir_ / "g", graph, &report).ok());
    GenerateRequest records;
    records.params = Params(
        {{"records", std::int64_t{60}}, {"files", std::int64_t{3}}, {"floats", std::int64_t{9}}});
    std::filesystem::create_directories(dir_ / "r");
    REQUIRE(GenerateRecords(dir_ / "r", records).ok());
    WriteFixture(dir_ / "c", SampleFile("a.bin"));
    WriteFixture(dir_ / "c", SampleFile("b.bin", {"a.bin"}));
    WriteFixture(dir_ / "c", SampleFile("c.bin"));

    PluginRegistryOptions registry;
    registry.plugins.emplace("plugin", plugin_.options().plugin);
    registry.copies = plugin_.copies();
    PlanLibraryOptions options;
    options.plugins = std::make_shared<PluginRegistry>(std::move(registry));
    options.kinds = ProductKinds(options.plugins).With(MakeNumberKind());
    for (const char* name : {"n", "m", "g", "r", "c"}) options.datasets[name].dir = dir_ / name;
    options.datasets["plugin:plugin"] = {
        .dir = plugin_.folder(), .index_file = {}, .kind = "python"};
    options.cache_dir = dir_ / "cache";
    options.examples = std::make_shared<BuiltExamples>(std::uint64_t{64} << 20);
    options.index_threads = 1;
    library_ = std::make_unique<PlanLibrary>(std::move(options), MakeNullLogger());
  }

  std::shared_ptr<const Plan> Compiled(const std::string& text) const {
    PipelineSource pipeline;
    pipeline.yaml = "millrace: 1\n" + text;
    const auto plan = library_->Compile(pipeline);
    INFO(text << plan.status().message());
    REQUIRE(plan.ok());
    return *plan;
  }

 private:
  TempDir dir_;
  PluginFixture plugin_;
  std::unique_ptr<PlanLibrary> library_;
};

const std::string kTenRows = "batch: {size: 10, remainder: keep}\n";
const std::vector<std::size_t> kSliceSizes = {1, 2, 3, 7, 10, 60};

TEST_CASE("batches in slices have the bytes of one thread, for every source", "[slices]") {
  const SlicedWorld world;
  for (const std::string& source :
       {std::string("dataset: n\nsource: numbers\n"),
        std::string("dataset: c\nsource: proof_states\n"),
        std::string("dataset: c\nsource: definitions\n"),
        std::string("dataset: g\nsource: {roots: train}\nfeatures: [x]\ntargets: [y]\n"),
        std::string("dataset: g\nsource: {graphs: small}\nfeatures: [x]\n"),
        std::string("dataset: g\nsource: {roots: train}\nfeatures: [x]\n"
                    "closure: {kind: neighbors, fanout: [3, 2], merge: false}\n"),
        std::string("dataset: r\nsource: {records: {d: \"bytes[194]\", s: int64, x: "
                    "\"float32[*]\"}}\n"),
        std::string("source: {python: \"plugin:Grouped\"}\n")}) {
    INFO(source);
    CheckSlices(*world.Compiled(source + "shuffle: {seed: 3}\n" + kTenRows), 10, kSliceSizes);
  }
}

TEST_CASE("dropped and excluded rows stay where they are in a batch of slices", "[slices]") {
  const SlicedWorld world;
  const std::string exclude = "exclude: {examples: [2, 9, 30, 31, 59]}\nshuffle: {seed: 1}\n";
  CHECK(CheckSlices(*world.Compiled("dataset: n\nsource: runs\n" + exclude + kTenRows), 10,
                    kSliceSizes) == 14);
  CHECK(CheckSlices(*world.Compiled("source: {python: \"plugin:Source\", drop: [LookupError]}\n" +
                                    kTenRows),
                    10, {1, 3, 10}) == 12);
}

TEST_CASE("chunks of an example may be in several slices", "[slices][chunk]") {
  const SlicedWorld world;
  const std::string chunks =
      "dataset: n\nsource: runs\nchunk: {tensor: run, size: 7, step: 5}\nshuffle: {seed: 2}\n";
  CheckSlices(*world.Compiled(chunks + kTenRows), 25, {1, 2, 7, 25}, 1);
  CheckSlices(
      *world.Compiled(chunks +
                      "tensors:\n  drawn: {python: \"plugin:noise\", inputs: {n: value}, type: "
                      "int64}\noutput: [run, drawn]\n" +
                      kTenRows),
      100, {9, 64}, 1);
}

TEST_CASE("batches of a bucket have their bound, and any number of rows, in slices",
          "[slices][bucket]") {
  const SlicedWorld world;
  const auto plan = world.Compiled(
      "dataset: n\nsource: runs\nexclude: {examples: [4]}\nshuffle: {}\n"
      "tensors: {twice: {concat: [run, run]}}\noutput: [run, twice]\n"
      "pad: {run: {to: bound}}\nfilter: {where: \"value < 100\"}\n"
      "batch: {bucket: {by: run.length, bounds: [10, 31, 80], size: 4}, remainder: keep}\n");
  REQUIRE(plan->planned_order().order->unit_is_batch());
  CheckSlices(*plan, 1, {1, 2, 3, 4});
}

TEST_CASE("a mix, whose branches pass over their examples within a batch, is built in slices",
          "[slices][mix]") {
  const SlicedWorld world;
  const std::string mix = "mix: {weights: {n: 1, m: 1}, epoch: {of: n}}\n" + kTenRows;
  CheckSlices(*world.Compiled("branches:\n  n: {dataset: n, source: numbers, shuffle: {seed: 3}}\n"
                              "  m: {dataset: m, source: numbers, shuffle: {seed: 3}}\n" +
                              mix),
              10, kSliceSizes);
  const auto drawn = world.Compiled(
      "branches:\n  n: {source: {python: \"plugin:Source\", drop: [LookupError]}}\n"
      "  m: {source: {python: \"plugin:Source\", args: {size: 6}, drop: [LookupError]}}\n" +
      mix);
  CHECK(drawn->pools().size() == 2);
  CheckSlices(*drawn, 10, {3}, 1);
}

TEST_CASE("functions are called for the rows of a slice, but not one that sees a whole batch",
          "[slices][plugin]") {
  const SlicedWorld world;
  const auto with = [&](const std::string& tensors, const std::string& outputs) {
    return world.Compiled("dataset: n\nsource: runs\ntensors:\n" + tensors + "output: [" + outputs +
                          "]\nshuffle: {seed: 2}\n" + kTenRows);
  };
  const auto plan = with(
      "  twice: {python: \"plugin:double\", inputs: {x: run}, type: \"int64[*]\"}\n"
      "  drawn: {python: \"plugin:noise\", inputs: {n: value}, type: int64}\n",
      "run, twice, drawn");
  CHECK(plan->pools().size() == 2);
  CheckSlices(*plan, 10, {1, 4}, 1);
  const auto whole = with(
      "  mean: {python: \"plugin:mean\", inputs: {n: value}, type: float32, per: batch}\n", "mean");
  CHECK_FALSE(whole->by_row());
}

/// The pieces that the rows of an epoch lack, by reason.
std::map<std::string, std::uint64_t> LostOf(const Plan& plan) {
  std::map<std::string, std::uint64_t> lost;
  for (const auto& batch : ReadEpoch(plan, 0, 1)) {
    for (const LostPieces& one : batch->info().lost_pieces) {
      lost[plan.source()->facts().drop_reasons.NameOf(one.reason)] += one.pieces;
    }
  }
  return lost;
}

TEST_CASE("lost pieces come through functions of rows and through mixes, in slices too",
          "[slices][plugin][mix][pack]") {
  const SlicedWorld world;
  const std::string pack = "pack: {tensor: run, size: 40, method: concat}";
  const std::string of_n = "dataset: n\nsource: runs\nexclude: {examples: [2, 9, 30, 31, 59]}\n" +
                           pack + "\nshuffle: {seed: 1}\n";
  const auto plain = world.Compiled(of_n + kTenRows);
  const auto lost = LostOf(*plain);
  CHECK(lost.at("excluded") > 5);
  CheckSlices(*plain, 10, kSliceSizes, 1);
  // Rows that one function drops are not given to the next one.
  const auto functions = world.Compiled(
      of_n +
      "tensors:\n"
      "  a: {python: \"plugin:count\", inputs: {x: run}, type: int64, drop: [LookupError]}\n"
      "  b: {python: \"plugin:first\", inputs: {x: run}, type: int64}\n"
      "output: [run, a, b]\n" +
      kTenRows);
  CHECK(LostOf(*functions) == lost);
  CHECK(CheckSlices(*functions, 10, {1, 4}, 1) > 3);

  const auto mix = world.Compiled(
      "branches:\n"
      "  n: {dataset: n, source: runs, exclude: {examples: [2, 9, 30, 31, 59]}, " +
      pack +
      "}\n"
      "  m: {dataset: m, source: runs, exclude: {examples: [0]}, " +
      pack +
      "}\n"
      "mix: {weights: {n: 1, m: 1}, epoch: {of: n}}\n" +
      kTenRows);
  CHECK(mix->facts().fields().spec.token_tensor() == "run");
  const auto mixed = LostOf(*mix);
  CHECK(mixed.size() == 1);
  CHECK(mixed.at("excluded") > lost.at("excluded"));
  CheckSlices(*mix, 10, kSliceSizes, 1);
}

TEST_CASE("a cache takes and gives the rows of slices", "[slices][cached]") {
  const SlicedWorld world;
  const std::string source = "dataset: c\nsource: proof_states\n";
  const auto kept = world.Compiled(source + "cache: {examples: memory}\n" + kTenRows);
  const auto plain = world.Compiled(source + kTenRows);
  Scratches scratches = ScratchesOf(*kept, 3);
  const auto alone = plain->NewScratch();
  for (const std::size_t size : {2, 3, 9}) {
    const auto sliced = BuildInSlices(*kept, 0, {0, 9}, size, scratches, size);
    REQUIRE(sliced.ok());
    CHECK((*sliced)->payload_hash() == (*plain->Batch(0, {0, 9}, *alone))->payload_hash());
  }
}

TEST_CASE("merged batches are not built in slices", "[slices][neighbors]") {
  const SlicedWorld world;
  CHECK_FALSE(world
                  .Compiled("dataset: g\nsource: {roots: train}\n"
                            "closure: {kind: neighbors, fanout: [3, 2]}\n" +
                            kTenRows)
                  ->by_row());
}

TEST_CASE("the error of a batch in slices is that of its lowest row", "[slices][plugin]") {
  const SlicedWorld world;
  const auto plan = world.Compiled(
      "source: {python: \"plugin:Source\", args: {bad: [14, 19]}, drop: [LookupError]}\n" +
      kTenRows);
  Scratches scratches = ScratchesOf(*plan, 3);
  const auto alone = plan->Batch(0, {10, 10}, *scratches.front());
  REQUIRE_FALSE(alone.ok());
  // Each failure costs a process.
  for (const std::size_t size : {1, 4}) {
    const auto sliced = BuildInSlices(*plan, 0, {10, 10}, size, scratches, 7);
    REQUIRE_FALSE(sliced.ok());
    CHECK(sliced.status().code() == alone.status().code());
    CHECK_THAT(sliced.status().message(), Catch::Contains("example 14 is empty"));
  }
  // The scratch is as good as before.
  CHECK(BuildInSlices(*plan, 0, {20, 10}, 4, scratches).ok());
  CHECK(plan->BeginSlices(0, {35, 10}, *scratches.front()).status().code() ==
        StatusCode::kOutOfRange);
}

TEST_CASE("a batch in slices that is given up half-way leaves nothing behind", "[slices]") {
  const SlicedWorld world;
  const auto plan = world.Compiled("dataset: n\nsource: runs\n" + kTenRows);
  Scratches scratches = ScratchesOf(*plan, 1);
  const auto before = plan->Batch(0, {0, 10}, *scratches.front());
  {
    auto begun = plan->BeginSlices(0, {10, 10}, *scratches.front());
    REQUIRE(begun.ok());
    CHECK((*begun)->Build(0, 4, *scratches.front()));
    CHECK((*begun)->Build(8, 2, *scratches.front()));
  }
  CHECK((*plan->Batch(0, {0, 10}, *scratches.front()))->digest() == (*before)->digest());
}

}  // namespace
}  // namespace millrace::test
