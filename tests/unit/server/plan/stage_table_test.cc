#include "server/source/stage.h"

#include <set>

#include "tests/unit/server/plan/text/pipeline_text.h"

#include "server/kinds/coq/coq_columns.h"
#include "server/kinds/coq/coq_parts.h"
#include "server/plan/pipeline_parts.h"
#include "server/plan/stage_table.h"
#include "server/sampling/closure_parts.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/yaml/read_parameter.h"
#include "tests/unit/server/plan/every_stage.h"

namespace millrace::test {

TEST_CASE("the stages come in the order in which they apply", "[stage]") {
  std::vector<std::string> names;
  for (const StageType& stage : ProductStages().stages()) names.push_back(stage.name);
  CHECK(names == std::vector<std::string>{"source", "chunk", "split", "filter", "pack", "shuffle",
                                          "closure", "edges", "features", "edge_features",
                                          "targets", "batch", "balance", "cache", "fields",
                                          "exclude"});
}

TEST_CASE("every stage says what it is, and its defaults pass their own checks", "[stage]") {
  for (const StageType& stage : ProductStages().stages()) {
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
      const ReadValue read = ReadParameter(parameter, **node);
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
  PlanParts parts;
  REQUIRE(stage->type->compile(stage->params, parts).ok());
  CHECK(parts.Get<FilterPart>().predicates.size() == 1);
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
  const StageTable new_table = ProductStages().With(second, "shuffle");
  const std::string yaml = Minimal("test_every: {keep: 3}\n");
  const Pipeline before = MustParse(yaml, "", {}, old_table);
  const Pipeline after = MustParse(yaml, "", {}, new_table);
  CHECK(before.digest() != after.digest());
  CHECK(before.Find("test_every")->fingerprint != after.Find("test_every")->fingerprint);
  CHECK(after.canonical_text().find("test_every@version=2\n") != std::string::npos);
}

TEST_CASE("a stage that keeps every example in its place enters no other stage's fingerprint",
          "[stage]") {
  StageType skip = *ProductStages().Find("exclude");
  skip.name = "skip";
  const StageTable table = ProductStages().With(skip, "shuffle");
  const Pipeline without = MustParse(Minimal("shuffle: {}\n"));
  const Pipeline with = MustParse(Minimal("shuffle: {}\nskip: {files: [a]}\n"), "", {}, table);
  CHECK(without.Find("shuffle")->fingerprint == with.Find("shuffle")->fingerprint);
  CHECK(without.order_digest() == with.order_digest());
  CHECK(without.digest() != with.digest());
}

/// A kind with one source, which has an argument.
class ListKind final : public DatasetKind {
 public:
  std::string_view name() const override { return "list"; }
  std::string_view looks_for() const override { return "file LIST"; }
  bool IsOne(const std::filesystem::path&) const override { return false; }
  const SourceTable& sources() const override { return sources_; }
  OpenedDataset Open(const std::filesystem::path&, const DatasetOpenOptions&) const override {
    return {.status = Unimplemented("open"), .dataset = nullptr, .damaged = {}, .bad_files = 0};
  }
  Result<std::string> Inspect(const std::filesystem::path&,
                              const DatasetOpenOptions&) const override {
    return Unimplemented("inspect");
  }

 private:
  static Result<std::shared_ptr<const Source>> MakeNone(std::shared_ptr<const Dataset>,
                                                        const PlanParts&) {
    return Unimplemented("source");
  }
  const SourceTable sources_ = SourceTable(
      {{.name = "members",
        .help = "one a member of a list",
        .make = MakeNone,
        .argument = Parameter{.name = "", .types = {ParamType::kText}, .help = "name of the list"},
        .defaults = {{"edges.add_self_edges", false}},
        .has_graphs = true}});
};

const StageTable& TableWithLists() {
  static const StageTable table = MakeStageTable(ProductKinds().With(std::make_shared<ListKind>()));
  return table;
}

std::string ListYaml(const std::string& source) {
  return "millrace: 1\ndataset: d\nsource: " + source + "\nbatch: {size: 8}\n";
}

TEST_CASE("a kind brings its sources to the table, and other kinds' keys mean nothing to them",
          "[stage]") {
  const Pipeline pipeline =
      MustParse(ListYaml("{members: train}") + "filter: {restrict_to_spine: true}\n", "", {},
                TableWithLists());
  CHECK(pipeline.source() == "members");
  CHECK(pipeline.unused_keys() == std::vector<std::string>{"filter.restrict_to_spine"});
  CHECK(ErrorOf(ListYaml("members"))
            .find("expected one of roots, graphs, records, tokens, proof_states, definitions, "
                  "python") != std::string::npos);
}

TEST_CASE("a source may have an argument, which is part of the digest", "[stage]") {
  const Pipeline train = MustParse(ListYaml("{members: train}"), "", {}, TableWithLists());
  CHECK(train.canonical_text() ==
        "batch.size=8\nsemantics=1\nsource.members=\"train\"\nsource=members\n");
  const PlanParts parts = *PartsOfPipeline(train);
  CHECK(parts.Get<SourcePart>().name == "members");
  CHECK(parts.Get<SourcePart>().argument == ParamValue(std::string("train")));
  const Pipeline other =
      MustParse(ListYaml("{members: train}"), "", {"source.members=test"}, TableWithLists());
  CHECK(other.digest() != train.digest());
  CHECK(other.digest() ==
        MustParse(ListYaml("{members: test}"), "", {}, TableWithLists()).digest());
}

TEST_CASE("a source may have defaults of its own, which the digest leaves out", "[stage]") {
  const auto parse = [](const std::string& more) {
    return MustParse(ListYaml("{members: train}") + more, "", {}, TableWithLists());
  };
  const auto self_edges = [](const Pipeline& pipeline) {
    return PartsOfPipeline(pipeline)->Get<EdgesPart>().add_self_edges;
  };
  CHECK_FALSE(self_edges(parse("")));
  CHECK(parse("").digest() == parse("edges: {add_self_edges: false}\n").digest());
  const Pipeline with = parse("edges: {add_self_edges: true}\n");
  CHECK(self_edges(with));
  CHECK(with.canonical_text().find("edges.add_self_edges=true\n") != std::string::npos);
  const Pipeline proofs = MustParse(ListYaml("proof_states"), "", {}, TableWithLists());
  CHECK(self_edges(proofs));
  CHECK(proofs.digest() == MustParse(ListYaml("proof_states")).digest());
}

TEST_CASE("the long form of a source without an argument is the short form", "[stage]") {
  CHECK(MustParse(ListYaml("{proof_states: {}}")).canonical_text() ==
        MustParse(ListYaml("proof_states")).canonical_text());
  CHECK(ErrorOf(ListYaml("{proof_states: {x: 1}}")) ==
        "p.yaml:3:24: source.proof_states: expected {}, got a map");
  CHECK(ErrorOf(ListYaml("{proof_states: {}, definitions: {}}")) ==
        "p.yaml:3:28: source: expected a name, or a map with one name, got definitions beside "
        "proof_states");
  CHECK(
      ErrorOf(ListYaml("{proofs: {}}"))
          .find(
              "p.yaml:3:10: source: expected one of roots, graphs, records, tokens, proof_states, "
              "definitions, python") == 0);
}

TEST_CASE("a source whose argument is missing says how to write it", "[stage]") {
  CHECK(ParsePipeline(ListYaml("members"), "", {}, TableWithLists()).status().message() ==
        "p.yaml:3:9: source: members needs a value: write source: {members: …}");
}

TEST_CASE("the stages give the parts of a plan", "[stage]") {
  const Pipeline pipeline = MustParse(
      Minimal("split: {method: file_prefix, prefixes: [[b, a], [c]], take: [2, 1]}\n"
              "filter: {exclude_none_arguments: true, exclude_not_faithful: true, "
              "required_tactic_occurrence: 4, restrict_to_spine: true}\nshuffle: {seed: 9}\n"
              "closure: {max_subgraph_size: 77, order: dfs, stop_at_definitions: false}\n"
              "edges: {symmetrization: undirected, add_self_edges: false}\n"
              "fields: {global_context: full, text: true}\nexclude: {files: [x, w]}\n"),
      "", {"batch={size: null, global_size: 64, remainder: keep}"});
  PlanParts parts;
  for (const StageConfig& stage : pipeline.stages()) {
    REQUIRE(stage.type->compile(stage.params, parts).ok());
  }
  CHECK(parts.Get<SourcePart>().name == "proof_states");
  CHECK(parts.Get<SplitPart>().split.method == SplitMethod::kFilePrefix);
  CHECK(parts.Get<SplitPart>().split.prefixes ==
        std::vector<std::vector<std::string>>{{"a", "b"}, {"c"}});
  CHECK(parts.Get<SplitPart>().take == std::vector<std::int64_t>{1, 2});
  const std::vector<ColumnCondition>& conditions = parts.Get<FilterPart>().conditions;
  REQUIRE(conditions.size() == 2);
  CHECK((conditions[0].column == kFaithfulColumn && !conditions[0].zero));
  CHECK((conditions[1].column == kNoneArgumentColumn && conditions[1].zero));
  CHECK(parts.Get<CoqNumberingPart>().required_tactic_occurrence == 4);
  CHECK(parts.Get<CoqNumberingPart>().restrict_to_spine);
  CHECK(parts.Get<ShufflePart>().seed == 9);
  CHECK(parts.Get<ClosurePart>().options.max_subgraph_size == 77);
  CHECK(parts.Get<ClosurePart>().options.order == ClosureOrder::kDepthFirst);
  CHECK_FALSE(parts.Get<ClosurePart>().options.stop_at_boundary);
  CHECK(parts.Get<EdgesPart>().symmetrization == Symmetrization::kUndirected);
  CHECK_FALSE(parts.Get<EdgesPart>().add_self_edges);
  CHECK(parts.Get<BatchPart>().size == 0);
  CHECK(parts.Get<BatchPart>().global_size == 64);
  CHECK(parts.Get<BatchPart>().keep);
  CHECK(parts.Get<CoqFieldsPart>().global_context == GlobalContextField::kFull);
  CHECK(parts.Get<CoqFieldsPart>().text);
  CHECK(parts.Get<ExcludePart>().files == std::vector<std::string>{"w", "x"});
}

TEST_CASE("the smallest pipeline gives parts with the defaults of the options", "[stage]") {
  const Pipeline pipeline = MustParse(Minimal());
  PlanParts parts;
  for (const StageConfig& stage : pipeline.stages()) {
    REQUIRE(stage.type->compile(stage.params, parts).ok());
  }
  const PlanParts untouched;
  CHECK(parts.Get<SplitPart>().split.method == SplitMethod::kDisabled);
  CHECK_FALSE(parts.Get<SplitPart>().take.has_value());
  CHECK_FALSE(parts.Get<ShufflePart>().seed.has_value());
  CHECK(parts.Get<CoqNumberingPart>().required_tactic_occurrence ==
        untouched.Get<CoqNumberingPart>().required_tactic_occurrence);
  CHECK(parts.Get<ClosurePart>().options.max_subgraph_size ==
        untouched.Get<ClosurePart>().options.max_subgraph_size);
  CHECK(parts.Get<ClosurePart>().options.order == untouched.Get<ClosurePart>().options.order);
  CHECK(parts.Get<ClosurePart>().options.stop_at_boundary ==
        untouched.Get<ClosurePart>().options.stop_at_boundary);
  CHECK(parts.Get<EdgesPart>().symmetrization == untouched.Get<EdgesPart>().symmetrization);
  CHECK(parts.Get<EdgesPart>().add_self_edges == untouched.Get<EdgesPart>().add_self_edges);
  CHECK(parts.Get<CoqFieldsPart>().global_context == untouched.Get<CoqFieldsPart>().global_context);
  CHECK(parts.Get<BatchPart>().size == 8);
  CHECK_FALSE(parts.Get<BatchPart>().keep);
}

}  // namespace millrace::test
