#include "server/pipeline/graph/stage.h"

#include <set>

#include "tests/unit/server/pipeline/text/pipeline_text.h"

#include "millrace/v1/pipeline.pb.h"
#include "server/pipeline/graph/plan_draft.h"
#include "server/pipeline/text/param_value.h"
#include "tests/unit/server/pipeline/operations/every_stage.h"

namespace millrace::test {

TEST_CASE("the stages come in the order in which they apply", "[stage]") {
  std::vector<std::string> names;
  for (const StageType& stage : StageTable::Default().stages()) names.push_back(stage.name);
  CHECK(names == std::vector<std::string>{"source", "split", "filter", "shuffle", "closure",
                                          "edges", "batch", "fields", "exclude"});
}

TEST_CASE("every stage says what it is, and its defaults pass their own checks", "[stage]") {
  for (const StageType& stage : StageTable::Default().stages()) {
    INFO(stage.name);
    CHECK_FALSE(stage.help.empty());
    CHECK(stage.compile);
    CHECK(stage.version >= 1);
    CHECK_FALSE(stage.parameters.empty());
    std::set<std::string> names;
    for (const Parameter& parameter : stage.parameters) {
      INFO(parameter.name);
      CHECK(names.insert(parameter.name).second);
      CHECK_FALSE(parameter.help.empty());
      CHECK(parameter.help.find('\n') == std::string::npos);
      REQUIRE_FALSE(parameter.types.empty());
      if (std::holds_alternative<std::monostate>(parameter.default_value)) continue;
      const auto text = FormatParamValue(parameter, parameter.default_value);
      const auto node = ReadYaml(text, "default");
      REQUIRE(node.ok());
      const ReadValue read = ReadParamValue(parameter, **node);
      CHECK_FALSE(read.error);
      CHECK(read.value == parameter.default_value);
    }
  }
}

TEST_CASE("another stage is one entry of the table", "[stage]") {
  const StageTable table = TableWithTestEvery();
  const Pipeline pipeline =
      MustParse(Minimal("test_every: {keep: 3}\nshuffle: {}\n"), "", {}, table);
  const StageConfig* stage = pipeline.Find("test_every");
  REQUIRE(stage != nullptr);
  CHECK(stage->params.GetInt("keep") == 3);
  CHECK(pipeline.canonical_text() ==
        "batch.size=8\nsemantics=1\nshuffle.seed=0\nsource=proof_states\ntest_every.keep=3\n");
  CHECK(&pipeline.stages()[3] == stage);
  PlanDraft draft;
  REQUIRE(stage->type->compile(stage->params, draft).ok());
  CHECK(draft.predicates.size() == 1);
  CHECK(ErrorOf(Minimal("test_every: {keep: 3}\n")).find("unknown key 'test_every'") !=
        std::string::npos);
}

TEST_CASE("a pipeline without the added stage keeps its digest", "[stage]") {
  const StageTable table = TableWithTestEvery();
  CHECK(MustParse(Minimal()).digest() == MustParse(Minimal(), "", {}, table).digest());
  CHECK(MustParse(Minimal()).digest() !=
        MustParse(Minimal("test_every: {}\n"), "", {}, table).digest());
}

TEST_CASE("a higher version of a stage changes the digest", "[stage]") {
  StageType second = TestEveryStage();
  second.version = 2;
  const StageTable old_table = TableWithTestEvery();
  const StageTable new_table = StageTable::Default().With(second, "shuffle");
  const std::string yaml = Minimal("test_every: {keep: 3}\n");
  const Pipeline before = MustParse(yaml, "", {}, old_table);
  const Pipeline after = MustParse(yaml, "", {}, new_table);
  CHECK(before.digest() != after.digest());
  CHECK(before.Find("test_every")->fingerprint != after.Find("test_every")->fingerprint);
  CHECK(after.canonical_text().find("test_every@version=2\n") != std::string::npos);
}

TEST_CASE("a stage that keeps every example in its place enters no other stage's fingerprint",
          "[stage]") {
  StageType skip = *StageTable::Default().Find("exclude");
  skip.name = "skip";
  const StageTable table = StageTable::Default().With(skip, "shuffle");
  const Pipeline without = MustParse(Minimal("shuffle: {}\n"));
  const Pipeline with = MustParse(Minimal("shuffle: {}\nskip: {files: [a]}\n"), "", {}, table);
  CHECK(without.Find("shuffle")->fingerprint == with.Find("shuffle")->fingerprint);
  CHECK(without.order_digest() == with.order_digest());
  CHECK(without.digest() != with.digest());
}

TEST_CASE("a table can know one more source", "[stage]") {
  const StageTable table = StageTable::Default().WithSource("two_arrays");
  const std::string yaml = "millrace: 1\ndataset: d\nsource: two_arrays\nbatch: {size: 8}\n";
  const Pipeline pipeline = MustParse(yaml + "filter: {restrict_to_spine: true}\n", "", {}, table);
  CHECK(pipeline.source() == "two_arrays");
  CHECK(pipeline.unused_keys() == std::vector<std::string>{"filter.restrict_to_spine"});
  CHECK(ErrorOf(yaml).find("expected one of proof_states, definitions") != std::string::npos);
}

TEST_CASE("the stages fill a plan's draft", "[stage]") {
  const Pipeline pipeline = MustParse(
      Minimal("split: {method: file_prefix, prefixes: [[b, a], [c]], take: [2, 1]}\n"
              "filter: {exclude_none_arguments: true, exclude_not_faithful: true, "
              "required_tactic_occurrence: 4, restrict_to_spine: true}\nshuffle: {seed: 9}\n"
              "closure: {max_subgraph_size: 77, order: dfs, stop_at_definitions: false}\n"
              "edges: {symmetrization: undirected, add_self_edges: false}\n"
              "fields: {global_context: full, text: true}\nexclude: {files: [x, w]}\n"),
      "", {"batch={size: null, global_size: 64, remainder: keep}"});
  PlanDraft draft;
  for (const StageConfig& stage : pipeline.stages()) {
    REQUIRE(stage.type->compile(stage.params, draft).ok());
  }
  CHECK(draft.source == "proof_states");
  CHECK(draft.split.method == SplitMethod::kFilePrefix);
  CHECK(draft.split.prefixes == std::vector<std::vector<std::string>>{{"a", "b"}, {"c"}});
  CHECK(draft.take == std::vector<std::int64_t>{1, 2});
  CHECK(draft.filter.exclude_none_arguments);
  CHECK(draft.filter.exclude_not_faithful);
  CHECK(draft.filter.required_tactic_occurrence == 4);
  CHECK(draft.filter.restrict_to_spine);
  CHECK(draft.shuffle_seed == 9);
  CHECK(draft.closure.max_subgraph_size == 77);
  CHECK(draft.closure.order == ClosureOrder::kDepthFirst);
  CHECK_FALSE(draft.closure.stop_at_definitions);
  CHECK(draft.edges.symmetrization == Symmetrization::kUndirected);
  CHECK_FALSE(draft.edges.add_self_edges);
  CHECK(draft.batch.size == 0);
  CHECK(draft.batch.global_size == 64);
  CHECK(draft.batch.keep);
  CHECK(draft.fields.global_context == GlobalContextField::kFull);
  CHECK(draft.fields.text);
  CHECK(draft.excluded_files == std::vector<std::string>{"w", "x"});
}

TEST_CASE("the smallest pipeline fills a draft with the defaults of the options", "[stage]") {
  const Pipeline pipeline = MustParse(Minimal());
  PlanDraft draft;
  for (const StageConfig& stage : pipeline.stages()) {
    REQUIRE(stage.type->compile(stage.params, draft).ok());
  }
  const PlanDraft untouched;
  CHECK(draft.split.method == SplitMethod::kDisabled);
  CHECK_FALSE(draft.take.has_value());
  CHECK_FALSE(draft.shuffle_seed.has_value());
  CHECK(draft.filter.required_tactic_occurrence == untouched.filter.required_tactic_occurrence);
  CHECK(draft.closure.max_subgraph_size == untouched.closure.max_subgraph_size);
  CHECK(draft.closure.order == untouched.closure.order);
  CHECK(draft.closure.stop_at_definitions == untouched.closure.stop_at_definitions);
  CHECK(draft.edges.symmetrization == untouched.edges.symmetrization);
  CHECK(draft.edges.add_self_edges == untouched.edges.add_self_edges);
  CHECK(draft.fields.global_context == untouched.fields.global_context);
  CHECK(draft.batch.size == 8);
  CHECK_FALSE(draft.batch.keep);
}

TEST_CASE("the message of a pipeline holds its chain of stages", "[stage]") {
  const Pipeline pipeline = MustParse(
      Minimal("split: {method: file_prefix, prefixes: [[b, a], [c]], take: [2, 1]}\nshuffle: {}\n"
              "closure: {order: dfs, stop_at_definitions: false, max_subgraph_size: 9}\n"
              "exclude: {files: [x]}\n"));
  const v1::Pipeline proto = pipeline.ToProto();
  CHECK(proto.semantics() == kSemantics);
  CHECK(proto.dataset() == "d");
  CHECK(proto.digest() == pipeline.digest().ToHex());
  CHECK(proto.order_digest() == pipeline.order_digest().ToHex());
  REQUIRE(proto.stages_size() == static_cast<int>(pipeline.stages().size()));
  CHECK(proto.stages(0).inputs_size() == 0);
  const v1::Stage& split = proto.stages(1);
  CHECK(split.type() == "split");
  CHECK(split.inputs(0) == 0);
  CHECK(split.fingerprint() == pipeline.stages()[1].fingerprint);
  CHECK(split.parameters().at("method").name() == "file_prefix");
  CHECK(split.parameters().at("take").integers().values(1) == 2);
  CHECK(split.parameters().at("prefixes").name_lists().values(0).values(1) == "b");
  CHECK(proto.stages(3).parameters().at("seed").integer() == 0);
  CHECK(proto.stages(4).place() == "worker");
  CHECK(proto.stages(4).parameters().at("max_subgraph_size").integer() == 9);
  CHECK(proto.stages(4).parameters().at("stop_at_definitions").has_boolean());
  CHECK(proto.stages(5).parameters().empty());
  CHECK(proto.stages(8).parameters().at("files").names().values(0) == "x");
}

}  // namespace millrace::test
