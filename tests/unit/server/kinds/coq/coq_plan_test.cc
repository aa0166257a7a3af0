// Plans over small datasets of the Coq format, and the library that makes them.
#include <catch2/catch.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "common/base/hash.h"
#include "common/batch/batch.h"
#include "common/expand/expand.h"
#include "common/transport/convert/tables.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/coq/coq_drop_reasons.h"
#include "server/kinds/coq/generator/generator.h"
#include "server/kinds/coq/scan/node_words.h"
#include "server/plan/pipeline_parts.h"
#include "server/plan/plan_library.h"
#include "server/sampling/closure_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

/// Two files, of which the second requires the first. Each has 3 proof states and 4 clusters.
struct TwoFiles {
  TwoFiles() {
    WriteFixture(dir.path(), SampleFile("a.bin"));
    WriteFixture(dir.path(), SampleFile("b.bin", {"a.bin"}));
  }
  TempDir dir;
};

PlanLibraryOptions At(const fs::path& dir) {
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets["d"].dir = dir;
  return options;
}

std::string Yaml(const std::string& more, const std::string& source = "proof_states") {
  return "millrace: 1\ndataset: d\nbatch: {size: 4, remainder: keep}\nsource: " + source + "\n" +
         more;
}

std::shared_ptr<const Plan> MustCompile(PlanLibrary& library, const std::string& yaml) {
  PipelineSource source;
  source.yaml = yaml;
  auto plan = library.Compile(source);
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  return *plan;
}

std::shared_ptr<const PackedBatch> MustBuild(const Plan& plan) {
  const auto scratch = plan.NewScratch();
  auto batch = plan.Batch(0, {0, static_cast<std::uint32_t>(plan.counts().selected)}, *scratch);
  INFO(batch.status().message());
  REQUIRE(batch.ok());
  return *batch;
}

std::vector<std::int64_t> Values(const PackedBatch& batch, const std::string& path) {
  const auto tensor = batch.Find(path);
  REQUIRE(tensor.has_value());
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < batch.tensors()[*tensor].rows; ++i) {
    values.push_back(batch.ValueAt(*tensor, i));
  }
  return values;
}

std::string Text(const PackedBatch& batch, const std::string& path) {
  const auto bytes = batch.tensor_bytes(*batch.Find(path));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

using Numbers = std::vector<std::int64_t>;

TEST_CASE("a proof state has its context, arguments, step and names", "[coq]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const auto plan = MustCompile(library, Yaml("fields: {text: true}\n"));
  CHECK(plan->counts().selected == 6);
  const auto batch = MustBuild(*plan);
  REQUIRE(batch->examples() == 6);
  // Each graph has the proof state, its hypothesis, a product and a sort, and the inductive that
  // the product names.
  CHECK(Values(*batch, "node_splits") == Numbers{0, 5, 10, 15, 20, 25, 30});
  CHECK(Values(*batch, "root") == Numbers(6, 0));
  CHECK(Values(*batch, "local_context") == Numbers(6, 1));
  CHECK(Values(*batch, "tactic") == Numbers{0, 0, 1, 0, 0, 1});
  CHECK(Values(*batch, "proof_step") == Numbers{1, 1, 3, 1, 1, 3});
  CHECK(Values(*batch, "faithful") == Numbers{1, 1, 0, 1, 1, 0});
  CHECK(Values(*batch, "example_id") == Numbers{0, 1, 2, 3, 4, 5});
  CHECK(Values(*batch, "definition") == Numbers{30, 30, 30, 36, 36, 36});
  CHECK(Values(*batch, "args_splits") == Numbers{0, 3, 6, 9, 12, 15, 18});
  CHECK(Values(*batch, "local_args") ==
        Numbers{0, -1, -1, 0, -1, -1, 0, -1, -1, 0, -1, -1, 0, -1, -1, 0, -1, -1});
  // The context of a is its own chain: c, T, A, B. That of b is the spine of a (theorem, c, T, A,
  // B), then its own chain.
  CHECK(Values(*batch, "global_args") ==
        Numbers{-1, 2, -1, -1, 2, -1, -1, 2, -1, -1, 3, -1, -1, 3, -1, -1, 3, -1});
  CHECK(Values(*batch, "global_context") == Numbers{0, 0, 0, 1, 1, 1});
  CHECK(Text(*batch, "state_text").starts_with("H : T |- a.binH : T |- a.bin"));
  CHECK(Text(*batch, "tactic_text").starts_with("autoautoauto"));
}

TEST_CASE("full contexts are what the references stand for", "[coq]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const auto batch = MustBuild(*MustCompile(library, Yaml("fields: {global_context: full}\n")));
  CHECK(Values(*batch, "global_context_splits") == Numbers{0, 4, 8, 12, 21, 30, 39});
  const Numbers all = Values(*batch, "global_context");
  CHECK(Numbers(all.begin(), all.begin() + 4) == Numbers{29, 26, 27, 28});
  CHECK(Numbers(all.begin() + 12, all.begin() + 21) == Numbers{30, 29, 26, 27, 28, 35, 32, 33, 34});
}

TEST_CASE("without global contexts only that tensor is missing", "[coq]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const auto with = MustBuild(*MustCompile(library, Yaml("")));
  const auto without = MustBuild(*MustCompile(library, Yaml("fields: {global_context: none}\n")));
  CHECK_FALSE(without->Find("global_context"));
  CHECK(without->tensors().size() + 1 == with->tensors().size());
  CHECK(Values(*with, "global_args") == Values(*without, "global_args"));
}

TEST_CASE("definitions come as clusters with their members as roots", "[coq]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const auto plan = MustCompile(library, Yaml("", "definitions"));
  const auto batch = MustBuild(*plan);
  CHECK(Values(*batch, "num_definitions") == Numbers{3, 1, 1, 1, 3, 1, 1, 1});
  CHECK(Values(*batch, "example_id") == Numbers{0, 1, 2, 3, 4, 5, 6, 7});
  const Numbers labels = Values(*batch, "node_label");
  CHECK(Numbers(labels.begin(), labels.begin() + 3) == Numbers{26, 27, 28});
  const ExampleDescription description = plan->source()->Describe(ExampleId(0));
  CHECK(description.title == "a.bin.T");
  CHECK(std::get<std::string>(*description.Find("definition")) == "a.bin.T");
  CHECK(std::get<std::vector<std::string>>(*description.Find("members")) ==
        std::vector<std::string>{"a.bin.T", "a.bin.A", "a.bin.B"});
}

TEST_CASE("a proof state is described by its definition, step and outcome", "[coq]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const auto plan = MustCompile(library, Yaml(""));
  const ExampleDescription description = plan->source()->Describe(ExampleId(0));
  CHECK(description.file == "a.bin");
  CHECK(std::get<std::string>(*description.Find("definition")) == description.title);
  CHECK(std::get<std::uint64_t>(*description.Find("step_of_proof")) == 1);
  CHECK(std::get<std::uint64_t>(*description.Find("outcome")) == 0);
  CHECK(std::holds_alternative<bool>(*description.Find("faithful")));
  std::vector<std::string> shown;
  for (const ExampleFact& fact : description.facts) {
    if (!fact.word.empty()) shown.push_back(fact.word);
  }
  CHECK(shown == std::vector<std::string>{"step", "outcome"});
}

TEST_CASE("types are the narrowest that the plan's bounds allow", "[coq]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const auto dtype = [&](const std::string& more, const std::string& path) {
    const auto plan = MustCompile(library, Yaml(more));
    for (const TensorSpec& tensor : plan->tensors()) {
      if (tensor.path == path) return std::string(DTypeName(tensor.dtype));
    }
    return std::string("missing");
  };
  CHECK(dtype("closure: {max_subgraph_size: 256}\n", "edge_source") == "uint8");
  CHECK(dtype("closure: {max_subgraph_size: 257}\n", "edge_source") == "uint16");
  CHECK(dtype("closure: {max_subgraph_size: 65536}\n", "local_context") == "uint16");
  CHECK(dtype("closure: {max_subgraph_size: 65537}\n", "local_context") == "uint32");
  CHECK(dtype("", "node_label") == "uint8");
  CHECK(dtype("", "local_args") == "int8");
  CHECK(dtype("", "root") == "uint8");
}

TEST_CASE("a local context that is cut off drops the example, in its place", "[coq]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const auto batch = MustBuild(*MustCompile(library, Yaml("closure: {max_subgraph_size: 1}\n")));
  CHECK(batch->examples() == 0);
  REQUIRE(batch->info().dropped.size() == 6);
  CHECK(batch->info().dropped[2] == DroppedExample{ExampleId(2), kContextCutOff});
}

TEST_CASE("an argument has the last of its positions in the local context", "[coq]") {
  const TempDir dir;
  FixtureFile file = SampleFile("a.bin");
  for (FixtureStep& step : file.definitions[4].steps) {
    for (FixtureOutcome& outcome : step.outcomes) outcome.context = {{0, 9}, {0, 7}, {0, 9}};
  }
  WriteFixture(dir.path(), file);
  PlanLibrary library(At(dir.path()), MakeNullLogger());
  const auto batch = MustBuild(*MustCompile(library, Yaml("")));
  CHECK(Values(*batch, "local_args") == Numbers{2, -1, -1, 2, -1, -1, 2, -1, -1});
}

TEST_CASE("filters leave examples out before they are built, and renumber nothing", "[coq]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const auto faithful = MustCompile(library, Yaml("filter: {exclude_not_faithful: true}\n"));
  CHECK(Values(*MustBuild(*faithful), "example_id") == Numbers{0, 1, 3, 4});
  CHECK(faithful->counts().filtered == 2);
  const auto no_none = MustCompile(library, Yaml("filter: {exclude_none_arguments: true}\n"));
  CHECK(no_none->counts().selected == 0);
}

TEST_CASE("a tactic met too seldom takes its examples out of the numbering", "[coq]") {
  const TempDir dir;
  FixtureFile file = SampleFile("a.bin");
  file.definitions[4].steps[1].ident = 7;
  file.definitions[4].steps[3].ident = 11;
  WriteFixture(dir.path(), file);
  PlanLibrary library(At(dir.path()), MakeNullLogger());
  CHECK(MustCompile(library, Yaml(""))->counts().source_examples == 3);
  const auto plan = MustCompile(library, Yaml("filter: {required_tactic_occurrence: 2}\n"));
  // 7 counts as met once, because its step without outcomes comes before the first step with
  // outcomes. The same holds for 11.
  CHECK(plan->counts().source_examples == 0);
}

TEST_CASE("an excluded file's examples, and those that would read it, are dropped in place",
          "[coq][exclude]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const std::string exclude = "exclude: {files: [a.bin]}\n";
  const auto plan = MustCompile(library, Yaml(exclude, "definitions"));
  const auto all = MustCompile(library, Yaml("", "definitions"));
  // The excluded file is not even opened.
  fs::remove(files.dir / "a.bin");
  const auto batch = MustBuild(*plan);
  Numbers dropped;
  for (const DroppedExample& d : batch->info().dropped) {
    CHECK(d.reason == DropReason::kExcluded);
    dropped.push_back(static_cast<std::int64_t>(d.id.value()));
  }
  // In b, only the constant is dropped whose term names a constructor of a.
  CHECK(dropped == Numbers{0, 1, 2, 3, 5});
  CHECK(plan->facts().order_fingerprint() == all->facts().order_fingerprint());
  CHECK(plan->facts().fingerprint() != all->facts().fingerprint());
  const auto scratch = all->NewScratch();
  const auto failed = all->Batch(0, {0, 8}, *scratch);
  CHECK(failed.status().code() == StatusCode::kDataLoss);
  CHECK(failed.status().message().find("a.bin") != std::string::npos);
}

TEST_CASE("a file to exclude that is not there is an error that names it", "[coq][exclude]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  PipelineSource source;
  source.yaml = Yaml("exclude: {files: [z.bin]}\n");
  CHECK(library.Compile(source).status().message() ==
        "pipeline:5:18: exclude.files: the dataset has no file 'z.bin' (did you mean a.bin?): "
        "names are "
        "those that `millrace inspect` prints, without patterns");
}

TEST_CASE("a definition off the spine drops the examples that reach it", "[coq]") {
  const TempDir dir;
  FixtureFile file = SampleFile("a.bin");
  file.nodes[9].children.push_back({6, {0, 5}});  // names the definition off the spine
  WriteFixture(dir.path(), file);
  PlanLibrary library(At(dir.path()), MakeNullLogger());
  const auto batch = MustBuild(*MustCompile(library, Yaml("filter: {restrict_to_spine: true}\n")));
  REQUIRE(batch->info().dropped.size() == 3);
  CHECK(batch->info().dropped[0].reason == kUnlabelledDefinition);
}

TEST_CASE("a file that changes under the map gives an error or a batch, never a crash",
          "[coq][hostile]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const auto states = MustCompile(library, Yaml("fields: {text: true}\n"));
  const auto definitions =
      MustCompile(library, Yaml("closure: {stop_at_definitions: false}\n", "definitions"));
  MustBuild(*states);
  MustBuild(*definitions);
  const fs::path path = files.dir / "b.bin";
  const std::vector<std::byte> good = ReadBytes(path);
  std::size_t errors = 0;
  const auto state_scratch = states->NewScratch();
  const auto definition_scratch = definitions->NewScratch();
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&file](std::size_t at, char value) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put(value);
    file.flush();
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    put(i, static_cast<char>(~std::to_integer<unsigned>(good[i])));
    const auto a = states->Batch(0, {0, 6}, *state_scratch);
    const auto b = definitions->Batch(0, {0, 8}, *definition_scratch);
    for (const Status& status : {a.status(), b.status()}) {
      if (status.ok()) continue;
      ++errors;
      CHECK(status.code() == StatusCode::kDataLoss);
      CHECK(status.message().find("b.bin") != std::string::npos);
    }
    put(i, static_cast<char>(std::to_integer<unsigned>(good[i])));
  }
  CHECK(errors > 50);
  // After all bytes are put back, the file is as good as before.
  CHECK(states->Batch(0, {0, 6}, *state_scratch).ok());
}

TEST_CASE("any number of threads and every closure kernel build the same bytes", "[coq]") {
  const TempDir dir;
  GeneratorReport report;
  REQUIRE(GenerateDataset(dir.path(), {.seed = 3, .nodes = 30'000}, &report).ok());
  PlanLibrary library(At(dir.path()), MakeNullLogger());
  const std::string settings =
      GENERATE(as<std::string>(), "shuffle: {seed: 9}\n",
               "shuffle: {seed: 9}\nclosure: {max_subgraph_size: 12}\n",
               "shuffle: {seed: 9}\nclosure: {max_subgraph_size: 300, stop_at_definitions: false}\n"
               "filter: {restrict_to_spine: true}\n");
  INFO(settings);
  PipelineSource source;
  source.yaml = Yaml(settings);
  const Pipeline pipeline = *library.Parse(source);
  PlanParts parts = *PartsOfPipeline(pipeline);
  const auto chosen = *library.Compile(pipeline);
  const auto batches = chosen->counts().selected / 64;
  REQUIRE(batches > 8);

  std::vector<Digest128> expected(batches);
  std::uint64_t dropped = 0;
  const auto scratch = chosen->NewScratch();
  for (std::uint64_t b = 0; b < batches; ++b) {
    const auto batch = *chosen->Batch(1, {b * 64, 64}, *scratch);
    expected[b] = batch->digest();
    dropped += batch->info().dropped.size();
  }
  CHECK((dropped > 0) == (settings.find("size: 12}") != std::string::npos));
  for (const ClosureKernel kernel :
       {ClosureKernel::kArray, ClosureKernel::kTable, ClosureKernel::kInTurns}) {
    parts.Edit<ClosurePart>().kernel = kernel;
    const auto plan = *library.Compile(parts, "d", pipeline.digest(), pipeline.order_digest());
    std::atomic<std::uint64_t> next{0};
    std::atomic<int> differing{0};
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const auto own = plan->NewScratch();
        for (std::uint64_t b = next++; b < batches; b = next++) {
          const auto batch = plan->Batch(1, {b * 64, 64}, *own);
          if (!batch.ok() || (*batch)->digest() != expected[b]) ++differing;
        }
      });
    }
    threads.clear();
    CHECK(differing == 0);
  }
}

/// A generated dataset in which every filter leaves something out.
struct Generated {
  Generated() {
    GeneratorReport report;
    REQUIRE(GenerateDataset(dir.path(), {.seed = 3, .nodes = 60'000}, &report).ok());
  }
  TempDir dir;
};

constexpr const char* kFilters[] = {
    "",
    "filter: {required_tactic_occurrence: 3}\n",
    "filter: {restrict_to_spine: true}\n",
    "filter: {restrict_to_spine: true, required_tactic_occurrence: 3}\n",
};

TEST_CASE("columns that are read together are those of each example", "[coq]") {
  const Generated generated;
  PlanLibrary library(At(generated.dir.path()), MakeNullLogger());
  for (const char* filters : kFilters) {
    for (const char* name : {"proof_states", "definitions"}) {
      INFO(name << " " << filters);
      const auto plan = MustCompile(library, Yaml(filters, name));
      const Source& source = *plan->source();
      const std::uint64_t examples = source.examples();
      REQUIRE(examples > 100);
      const std::size_t columns = source.columns().size();
      for (const std::uint64_t first : {std::uint64_t{0}, examples / 3, examples - 7}) {
        const std::uint64_t count = std::min<std::uint64_t>(500, examples - first);
        std::vector<std::vector<std::int64_t>> values(columns, std::vector<std::int64_t>(count));
        std::vector<ColumnValues> wanted;
        for (std::size_t c = 0; c < columns; ++c) wanted.push_back({c, values[c]});
        source.ReadColumns(ExampleId(first), wanted);
        for (std::size_t c = 0; c < columns; ++c) {
          for (std::uint64_t i = 0; i < count; ++i) {
            std::int64_t alone = -1;
            const ColumnValues one{c, {&alone, 1}};
            source.ReadColumns(ExampleId(first + i), {&one, 1});
            REQUIRE(alone == values[c][i]);
          }
        }
      }
    }
  }
}

TEST_CASE("labels of the split are those that examples were counted by", "[coq]") {
  const Generated generated;
  PlanLibrary library(At(generated.dir.path()), MakeNullLogger());
  const auto plan = MustCompile(
      library, Yaml("split: {method: hash, proportions: [3, 1, 1], seed: 5, take: 1}\n"));
  std::vector<std::uint64_t> counted(3, 0);
  for (std::uint64_t e = 0; e < plan->counts().source_examples; ++e) {
    const std::uint32_t label = plan->SplitLabel(ExampleId(e));
    ++counted[label];
    REQUIRE(plan->Selects(ExampleId(e)) == (label == 1));
  }
  CHECK(counted == plan->counts().examples_per_split);
  CHECK(counted[0] > 0);
  CHECK(counted[1] > 0);
}

TEST_CASE("static tables are written as protobuf serializes them", "[coq]") {
  const Generated generated;
  PlanLibrary library(At(generated.dir.path()), MakeNullLogger());
  for (const char* filters : kFilters) {
    for (const char* name : {"proof_states", "definitions"}) {
      const auto plan = MustCompile(library, Yaml(filters, name));
      const std::shared_ptr<const std::string> bytes = plan->static_bytes();
      v1::Static tables;
      REQUIRE(tables.ParseFromString(*bytes));
      CHECK(tables.SerializeAsString() == *bytes);
      CHECK(Xxh3(*bytes).ToHex() == plan->facts().static_digest());
    }
  }
}

TEST_CASE("a spec describes the tables of its plan, with their digests", "[coq]") {
  const Generated generated;
  PlanLibrary library(At(generated.dir.path()), MakeNullLogger());
  for (const char* name : {"proof_states", "definitions"}) {
    const auto plan = MustCompile(library, Yaml("", name));
    const v1::Spec spec = *plan->facts().Spec(1);
    const std::vector<TableSpec> specs = *TablesOf(spec);
    const NamedTables tables = *DecodeTables(*plan->static_bytes());
    CHECK(CheckTables(tables, specs).ok());
    CHECK((tables.Find("contexts") != nullptr) == (std::string_view(name) == "proof_states"));
    v1::Static message;
    REQUIRE(message.ParseFromString(*plan->static_bytes()));
    REQUIRE(message.tables_size() == static_cast<int>(specs.size()));
    for (int i = 0; i < message.tables_size(); ++i) {
      CHECK(Xxh3(message.tables(i).SerializeAsString()).ToHex() ==
            specs[static_cast<std::size_t>(i)].digest);
    }
    const auto labels = *tables.Unsigned("files", "labels");
    CHECK(std::accumulate(labels.begin(), labels.end(), std::uint64_t{kNodeClasses}) ==
          tables.Find("node_labels")->spec.rows);
    for (const v1::TensorSpec& tensor : spec.tensors()) {
      if (tensor.path() == "node_label") CHECK(tensor.table() == "node_labels");
      if (tensor.path() == "tactic") CHECK(tensor.table() == "tactics");
      if (tensor.path() == "global_context") CHECK(tensor.table() == "contexts");
      if (tensor.path() == "root") CHECK(tensor.table().empty());
    }
  }
}

TEST_CASE("static tables are kept only while somebody has them", "[coq]") {
  const TwoFiles files;
  PlanLibrary library(At(files.dir.path()), MakeNullLogger());
  const auto plan = MustCompile(library, Yaml(""));
  std::shared_ptr<const std::string> bytes = plan->static_bytes();
  CHECK(plan->static_bytes() == bytes);
  const std::weak_ptr<const std::string> known = bytes;
  bytes.reset();
  CHECK(known.expired());
}

}  // namespace
}  // namespace millrace::test
