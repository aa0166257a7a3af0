#include "client/cli/offline/inspect_pipeline.h"

#include <filesystem>

#include "server/catalog/product_kinds.h"
#include "tests/unit/server/plan/text/pipeline_text.h"

#include "common/base/log.h"
#include "common/system/stderr_logger.h"
#include "server/plan/plan_library.h"
#include "server/plan/text/canonical.h"
#include "server/yaml/read_parameter.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/skip.h"
#include "tests/unit/server/plan/every_stage.h"

namespace millrace::cli {
namespace {

using test::Minimal;
using test::MustParse;

bool Has(const std::string& text, const std::string& phrase) {
  return text.find(phrase) != std::string::npos;
}

}  // namespace

TEST_CASE("inspect shows every stage with place, fingerprint and values", "[inspect]") {
  const Pipeline pipeline = MustParse(Minimal("shuffle: {seed: 5}\n"));
  const std::string text = DescribePipeline(pipeline);
  for (const StageConfig& stage : pipeline.stages()) {
    CHECK(Has(text, stage.fingerprint));
    CHECK(Has(text, "\n" + stage.type->name + " "));
  }
  CHECK(Has(text, "closure      worker    "));
  CHECK(Has(text, "seed: 5"));
  CHECK(Has(text, "max_subgraph_size: 1024, order: bfs, stop_at_definitions: true"));
  CHECK(Has(text, "\n  batch.size=8\n  semantics=1\n  shuffle.seed=5\n  source=proof_states\n"));
  CHECK(Has(text, "digest         " + pipeline.digest().ToHex()));
  CHECK(Has(text, "unused keys    none\n"));
}

TEST_CASE("inspect lists unused keys and variants", "[inspect]") {
  const std::string text = DescribePipeline(MustParse(
      Minimal("fields: {text: true}\nvariants: {a: {}, b: {}}\n"), "", {"source=definitions"}));
  CHECK(Has(text, "unused keys    fields.text\n"));
  CHECK(Has(text, "variants       a, b\n"));
}

TEST_CASE("inspect shows the options of a source with their keys", "[inspect]") {
  const std::string text = DescribePipeline(
      MustParse("millrace: 1\nsource: {python: 'asr:Data', args: {n: 3}, timeout: 5}\n"
                "batch: {size: 8}\n"));
  INFO(text);
  CHECK(Has(text, "python, python: "));
  CHECK(Has(text, "args: {"));
  CHECK(Has(text, "timeout: 5"));
}

TEST_CASE("inspect shows no parameter without meaning for the source", "[inspect]") {
  const std::string text = DescribePipeline(
      MustParse("millrace: 1\ndataset: d\nsource: {graphs: all}\nbatch: {size: 8}\n"));
  CHECK_FALSE(Has(text, "max_subgraph_size"));
  CHECK_FALSE(Has(text, "stop_at"));
  CHECK_FALSE(Has(text, "\nfields "));
  CHECK(Has(text, "\nedges "));
}

TEST_CASE("inspect prints help and default of every parameter, also of an added stage",
          "[inspect]") {
  const StageTable table = test::TableWithTestEvery();
  const std::string text = DescribeStages(table);
  for (const StageType& stage : table.stages()) {
    CHECK(Has(text, stage.help));
    for (const Parameter& parameter : stage.parameters) {
      CHECK(Has(text, "  " + CanonicalKey(stage, parameter) + ": " + parameter.help));
      CHECK(Has(text, Expected(parameter)));
    }
  }
  CHECK(Has(text, "one of bfs, dfs; default bfs\n"));
  CHECK(
      Has(text,
          "one of roots, graphs, records, tokens, proof_states, definitions, python; required\n"));
  CHECK(Has(text, "test_every (runs in the plan, version 1): "));
}

TEST_CASE("inspect counts examples, steps, graphs and bytes of a plan", "[inspect]") {
  const std::string shared = test::SharedDirOrSkip();
  const test::TempDir temp;
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets["d"] = {shared + "/data/mini_stdlib", temp.path() / "index"};
  PlanLibrary library(std::move(options), MakeStderrLogger("test", LogLevel::kError, false));
  const Pipeline pipeline = MustParse(
      Minimal("split: {method: hash, proportions: [9, 1], take: 1}\nbatch.remainder: keep\n"));
  const auto plan = library.Compile(pipeline);
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  const auto text = DescribePlan(**plan, {.examples = 0, .world_size = 2});
  REQUIRE(text.ok());
  INFO(*text);
  CHECK(Has(*text, "examples       2276\n  split 0      2118\n  split 1      158\n"));
  CHECK(Has(*text, "steps          10 an epoch at world size 2, 16 examples a step, 0 left out\n"));
  CHECK(Has(*text, "first batch    8 graphs, "));
  CHECK(
      Has(*text, "sample         158 examples\n  dropped      0\n  nodes        33.4 mean, 130 "));
  const auto cut = library.Compile(MustParse(Minimal(), "", {"closure.max_subgraph_size=4"}));
  REQUIRE(cut.ok());
  const auto dropped = DescribePlan(**cut, {.examples = 100, .world_size = 1});
  REQUIRE(dropped.ok());
  INFO(*dropped);
  CHECK(Has(*dropped, "sample         100 examples\n"));
  CHECK(Has(*dropped, "(context_cut_off "));
}

TEST_CASE("a stage that only the tests know selects examples of a real plan", "[stage]") {
  const std::string shared = test::SharedDirOrSkip();
  const test::TempDir temp;
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets["d"] = {shared + "/data/mini_stdlib", temp.path() / "index"};
  options.stages = std::make_shared<const StageTable>(test::TableWithTestEvery());
  PlanLibrary library(std::move(options), MakeStderrLogger("test", LogLevel::kError, false));
  const auto plan =
      library.Compile(PipelineSource{Minimal("test_every: {keep: 4}\n"), "", {}, "p"});
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  CHECK((*plan)->counts().source_examples == 2276);
  CHECK((*plan)->counts().selected == 569);
  for (std::uint64_t place = 0; place < 569; ++place) {
    REQUIRE((*plan)->ExamplesOf(0, {place, 1}) == std::vector{ExampleId(4 * place)});
  }
}

}  // namespace millrace::cli
