// Runs a source of another kind through plan and writer. This shows that the interface of sources
// does not depend on Coq. Packed batches, when delivered, must equal the plain closure of the
// reference page.
#include "server/plan/plan.h"

#include "tests/unit/server/sampling/random_graph.h"

#include <rapidcheck/catch.h>

#include "common/batch/batch.h"
#include "common/expand/expand.h"
#include "server/plan/pipeline_parts.h"
#include "server/plan/stage_clock.h"
#include "server/plan/text/pipeline.h"
#include "server/sampling/closure_parts.h"
#include "server/source/order_parts.h"
#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace::test {
namespace {

/// The stages of the product, and one more source.
const StageTable& CsrStages() {
  static const StageTable table = [] {
    std::vector<StageType> stages(ProductStages().stages().begin(), ProductStages().stages().end());
    stages.front().parameters.front().allowed.push_back("csr");
    return StageTable(std::move(stages));
  }();
  return table;
}

std::shared_ptr<const Plan> MakePlan(const CsrGraph& graph, const std::string& more,
                                     ClosureKernel kernel = ClosureKernel::kArray) {
  const Pipeline pipeline =
      MustParse("millrace: 1\ndataset: none\nsource: csr\n" + more, "", {}, CsrStages());
  PlanParts parts = *PartsOfPipeline(pipeline);
  parts.Edit<ClosurePart>().kernel = kernel;
  auto plan =
      Plan::Compile(parts, pipeline.digest(), pipeline.order_digest(), MakeCsrSource(graph, parts));
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  return *plan;
}

std::string SettingsText(const PlainOptions& options, const std::string& symmetrization,
                         bool self_edges) {
  return "closure: {max_subgraph_size: " + std::to_string(options.max_subgraph_size) +
         ", order: " + (options.bfs_option ? "bfs" : "dfs") +
         ", stop_at_definitions: " + (options.stop_at_definitions ? "true" : "false") +
         "}\nedges: {symmetrization: " + symmetrization +
         ", add_self_edges: " + (self_edges ? "true" : "false") + "}\n";
}

TEST_CASE("delivered batches of a CSR graph are the plain closures of their examples", "[csr]") {
  rc::prop("on random graphs, all options", [] {
    RandomGraph graph = MakeRandomGraph(3, *rc::gen::arbitrary<bool>());
    for (int i = 0; i < 5; ++i) graph.csr.roots.push_back(MakeRandomRoots(graph));
    const PlainOptions options = MakeRandomOptions();
    const std::string symmetrization =
        *rc::gen::element<std::string>("none", "undirected", "bidirectional");
    const bool self_edges = *rc::gen::arbitrary<bool>();
    const auto plan = MakePlan(graph.csr, "batch: {size: 5}\nshuffle: {seed: 7}\n" +
                                              SettingsText(options, symmetrization, self_edges));
    const auto scratch = plan->NewScratch();
    const auto packed = plan->Batch(3, {0, 5}, *scratch);
    RC_ASSERT(packed.ok());
    BufferPool pool;
    const auto delivered = Expand(**packed, DType::kInt64, pool);
    RC_ASSERT(delivered.ok());

    const auto values = [&](const char* path) {
      return (*delivered)->Find(path)->values<std::int64_t>();
    };
    const auto node_splits = values("node_splits");
    const auto edge_splits = values("edge_splits");
    std::size_t row = 0;
    std::size_t dropped = 0;
    for (std::uint64_t place = 0; place < 5; ++place) {
      const ExampleId id = plan->ExamplesOf(3, {place, 1}).at(0);
      const auto plain = PlainClosure(graph.plain, Wide(graph.csr.roots[id.value()]), options);
      if (!plain) {
        RC_ASSERT((*packed)->info().dropped[dropped++] == (DroppedExample{id, kCsrUnlabelled}));
        continue;
      }
      RC_ASSERT((*packed)->info().example_ids[row] == id);
      const auto first_node = static_cast<std::size_t>(node_splits[row]);
      RC_ASSERT(static_cast<std::size_t>(node_splits[row + 1]) - first_node ==
                plain->node_labels.size());
      for (std::size_t n = 0; n < plain->node_labels.size(); ++n) {
        RC_ASSERT(values("node_label")[first_node + n] == plain->node_labels[n]);
      }
      const auto edges = PlainDeliveredEdges(*plain, 3, symmetrization, self_edges);
      const auto first_edge = static_cast<std::size_t>(edge_splits[row]);
      RC_ASSERT(static_cast<std::size_t>(edge_splits[row + 1]) - first_edge == edges.size());
      for (std::size_t e = 0; e < edges.size(); ++e) {
        RC_ASSERT(values("edge_source")[first_edge + e] == edges[e].source + node_splits[row]);
        RC_ASSERT(values("edge_target")[first_edge + e] == edges[e].target + node_splits[row]);
        RC_ASSERT(values("edge_label")[first_edge + e] == edges[e].label);
      }
      ++row;
    }
    RC_ASSERT(row == (*packed)->examples());
  });
}

TEST_CASE("both visited sets and every scratch give the same bytes", "[csr]") {
  rc::prop("on random graphs", [] {
    RandomGraph graph = MakeRandomGraph(3, true);
    for (int i = 0; i < 12; ++i) graph.csr.roots.push_back(MakeRandomRoots(graph));
    const std::string settings =
        "batch: {size: 4}\nshuffle: {seed: 1}\n" + SettingsText(MakeRandomOptions(), "none", false);
    const auto array = MakePlan(graph.csr, settings);
    const auto table = MakePlan(graph.csr, settings, ClosureKernel::kTable);
    const auto used = array->NewScratch();
    const auto other = table->NewScratch();
    for (const std::uint64_t first : {8u, 0u, 4u, 0u}) {
      const auto fresh = array->NewScratch();
      const auto a = array->Batch(2, {first, 4}, *used);
      const auto b = table->Batch(2, {first, 4}, *other);
      const auto c = array->Batch(2, {first, 4}, *fresh);
      RC_ASSERT(a.ok());
      RC_ASSERT(b.ok());
      RC_ASSERT(c.ok());
      RC_ASSERT((*a)->digest() == (*b)->digest());
      RC_ASSERT((*a)->digest() == (*c)->digest());
    }
  });
}

CsrGraph Singles(std::uint32_t examples) {
  CsrGraph graph;
  for (std::uint32_t n = 0; n < examples; ++n) {
    graph.offsets.push_back(0);
    graph.node_labels.push_back(n);
    graph.is_definition.push_back(false);
    graph.roots.push_back({n});
  }
  return graph;
}

TEST_CASE("every example of an epoch has one place, and is found there again", "[plan]") {
  const auto plan = MakePlan(Singles(300),
                             "batch: {size: 8}\nshuffle: {seed: 5}\n"
                             "split: {method: hash, proportions: [2, 1], take: 0}\n");
  const std::uint64_t n = plan->counts().selected;
  REQUIRE(n > 100);
  REQUIRE(n < 300);
  CHECK(plan->counts().examples_per_split.at(0) == n);
  CHECK(plan->counts().examples_per_split.at(1) == 300 - n);
  for (const std::uint64_t epoch : {0u, 1u, 17u}) {
    std::vector<bool> met(300, false);
    for (std::uint64_t place = 0; place < n; ++place) {
      const ExampleId id = plan->ExamplesOf(epoch, {place, 1}).at(0);
      CHECK_FALSE(met[id.value()]);
      met[id.value()] = true;
      CHECK(plan->PlacesOf(epoch, id).places == std::vector<UnitRow>{{place, 0}});
      CHECK(plan->SplitLabel(id) == 0);
    }
    for (std::uint64_t id = 0; id < 300; ++id) {
      if (!met[id]) CHECK_FALSE(plan->Selects(ExampleId(id)));
    }
  }
  CHECK(plan->PlacesOf(0, ExampleId(300)).why == ExamplePlaces::Absence::kFiltered);
}

TEST_CASE("an example lies in the batch that step arithmetic says", "[plan]") {
  const auto plan = MakePlan(Singles(101), "batch: {size: 6, remainder: keep}\nshuffle: {}\n");
  const StepArithmetic steps = *plan->facts().Steps(4);
  const auto scratch = plan->NewScratch();
  for (const std::uint64_t from : {0u, 30u}) {
    const Position begin{2, from};
    for (std::uint64_t id = 0; id < 101; ++id) {
      const std::uint64_t place = plan->PlacesOf(2, ExampleId(id)).places.at(0).unit;
      const auto at = steps.Locate(place, begin);
      if (!at) {
        CHECK(place < from);
        continue;
      }
      const auto batch = plan->Batch(2, steps.RankExamples(at->position, at->rank), *scratch);
      REQUIRE(batch.ok());
      CHECK((*batch)->info().example_ids.at(at->row) == ExampleId(id));
    }
  }
}

TEST_CASE("a predicate of a further stage leaves examples out of the epoch", "[plan]") {
  const Pipeline pipeline =
      MustParse("millrace: 1\ndataset: none\nsource: csr\nbatch: {size: 2}\n", "", {}, CsrStages());
  PlanParts parts = *PartsOfPipeline(pipeline);
  parts.Edit<FilterPart>().predicates.push_back(
      [](const Source&, ExampleId id) { return id.value() % 3 == 0; });
  const auto plan = Plan::Compile(parts, pipeline.digest(), pipeline.order_digest(),
                                  MakeCsrSource(Singles(10), parts));
  REQUIRE(plan.ok());
  CHECK((*plan)->counts().selected == 4);
  CHECK((*plan)->counts().filtered == 6);
  CHECK((*plan)->ExamplesOf(0, {2, 1}) == std::vector{ExampleId(6)});
}

TEST_CASE("a scratch says what its time went into, stage by stage", "[plan]") {
  const auto plan = MakePlan(Singles(10), "batch: {size: 2}\n");
  const auto scratch = plan->NewScratch();
  std::vector<double> before(3, 0);
  for (int round = 0; round < 3; ++round) {
    REQUIRE(plan->Batch(0, {0, 10}, *scratch).ok());
    const std::vector<BatchScratch::StageTime> times = scratch->stage_times();
    REQUIRE(times.size() == 3);
    CHECK(times[0].stage == "shuffle");
    CHECK(times[1].stage == "closure");
    CHECK(times[2].stage == "batch");
    for (std::size_t i = 0; i < times.size(); ++i) {
      CHECK(times[i].seconds > before[i]);
      before[i] = times[i].seconds;
    }
  }
}

TEST_CASE("a clock of stages says which one runs, from the first to the end", "[plan]") {
  StageClock clock;
  CHECK(clock.stage().empty());
  clock.Begin(TimedStage::kShuffle);
  CHECK(clock.stage() == "shuffle");
  clock.Next(TimedStage::kReading);
  CHECK(clock.stage() == "closure");
  clock.Next(TimedStage::kBatch);
  CHECK(clock.stage() == "batch");
  clock.End();
  CHECK(clock.stage().empty());
  clock.Begin(TimedStage::kReading);  // a batch of given examples has nothing to shuffle
  CHECK(clock.stage() == "closure");
}

TEST_CASE("each phase of a program is a stage between closure and batch", "[plan]") {
  const std::vector<std::string> phases = {"bits+take", "expr"};
  StageClock clock(phases);
  clock.Begin(TimedStage::kReading);
  clock.OnPhase(0);
  CHECK(clock.stage() == "tensors: bits+take");
  clock.OnPhase(1);
  CHECK(clock.stage() == "tensors: expr");
  clock.OnEnd();
  CHECK(clock.stage() == "batch");
  std::vector<std::string> stages;
  for (const BatchScratch::StageTime& time : clock.times()) stages.emplace_back(time.stage);
  CHECK(stages == std::vector<std::string>{"shuffle", "closure", "tensors: bits+take",
                                           "tensors: expr", "batch"});
  CHECK(StageClock().times().size() == 3);
}

TEST_CASE("a scratch says what the operations of a plan took", "[plan]") {
  const auto plan = MakePlan(Singles(10),
                             "batch: {size: 2}\n"
                             "tensors: {label: {cast: node_label, dtype: float64, at: worker}}\n"
                             "output: [label]\n");
  const auto scratch = plan->NewScratch();
  REQUIRE(plan->Batch(0, {0, 10}, *scratch).ok());
  std::vector<std::string> stages;
  for (const BatchScratch::StageTime& time : scratch->stage_times()) {
    stages.emplace_back(time.stage);
    CHECK(time.seconds > 0);
  }
  CHECK(stages == std::vector<std::string>{"shuffle", "closure", "tensors: cast", "batch"});
  CHECK(scratch->stage().empty());
}

TEST_CASE("a scratch names no stage between batches", "[plan]") {
  const auto plan = MakePlan(Singles(10), "batch: {size: 2}\n");
  const auto scratch = plan->NewScratch();
  CHECK(scratch->stage().empty());
  REQUIRE(plan->Batch(0, {0, 10}, *scratch).ok());
  CHECK(scratch->stage().empty());
}

TEST_CASE("what a plan cannot do is refused with the numbers", "[plan]") {
  const auto plan = MakePlan(Singles(10), "batch: {size: 2}\n");
  const auto scratch = plan->NewScratch();
  CHECK(plan->Batch(0, {9, 2}, *scratch).status().code() == StatusCode::kOutOfRange);
  CHECK(plan->Batch(0, {~std::uint64_t{0}, 2}, *scratch).status().code() ==
        StatusCode::kOutOfRange);
  const ExampleId beyond(10);
  CHECK(plan->BatchOf({&beyond, 1}, 0, *scratch).status().message() ==
        "example 10: the pipeline's source has 10 examples, from 0 on");
  const auto other = MakePlan(Singles(10), "batch: {size: 2}\n");
  CHECK(other->Batch(0, {0, 2}, *scratch).status().code() == StatusCode::kInternal);
  const auto empty = plan->Batch(0, {10, 0}, *scratch);
  REQUIRE(empty.ok());
  CHECK((*empty)->examples() == 0);
}

TEST_CASE("a pipeline's source and the plan's have to be the same", "[plan]") {
  const Pipeline pipeline = MustParse(Minimal());
  const PlanParts parts = *PartsOfPipeline(pipeline);
  const auto plan = Plan::Compile(pipeline, MakeCsrSource(Singles(3), parts));
  CHECK(plan.status().message() ==
        "the pipeline draws from 'proof_states', but the source is 'csr'");
}

TEST_CASE("a split that does not fit the source is refused", "[plan]") {
  const Pipeline pipeline = MustParse(
      "millrace: 1\ndataset: none\nsource: csr\nbatch: {size: 2}\n"
      "split: {method: file_prefix, prefixes: [[a]]}\n",
      "", {}, CsrStages());
  const PlanParts parts = *PartsOfPipeline(pipeline);
  CHECK(Plan::Compile(pipeline, MakeCsrSource(Singles(3), parts)).status().code() ==
        StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::test
