#include "server/daemon/plan_adapters.h"

#include <catch2/catch.hpp>

#include "server/catalog/product_kinds.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

constexpr const char* kPipeline =
    "millrace: 1\ndataset: d\nsource: proof_states\nbatch: {size: 2}\n";

/// A library of one dataset, which has one file.
struct Library {
  Library() {
    WriteFixture(dir.path(), SampleFile("a.bin"));
    PlanLibraryOptions options;
    options.kinds = ProductKinds();
    options.datasets["d"].dir = dir.path();
    library = std::make_shared<PlanLibrary>(options, MakeNullLogger());
  }
  TempDir dir;
  std::shared_ptr<PlanLibrary> library;
};

v1::PipelineText Text(const std::string& yaml, const std::string& change = "") {
  v1::PipelineText text;
  text.set_yaml(yaml);
  if (!change.empty()) text.add_overrides(change);
  return text;
}

TEST_CASE("a dataset's state has a digest only once it is open", "[adapters]") {
  DatasetStatus status;
  status.indexing = 0.25;
  status.error = "why";
  v1::DatasetState state = ToProto(status);
  CHECK(state.digest().empty());
  CHECK(state.verifying() == 0.25);
  CHECK(state.error() == "why");
  status.open = true;
  status.digest = {1, 2};
  status.files = 3;
  status.examples = 4;
  status.unverified = 0.5;
  status.in_memory_bytes = 6;
  state = ToProto(status);
  CHECK(state.digest() == status.digest.ToHex());
  CHECK(state.verifying() == 1);
  CHECK(state.files() == 3);
  CHECK(state.examples() == 4);
  CHECK(state.unverified() == 0.5);
  CHECK(state.in_memory_bytes() == 6);
}

TEST_CASE("names of files that were left out are escaped", "[adapters]") {
  DatasetStatus status;
  BadFile bad;
  bad.name = "a\nb";
  bad.reason = "short";
  status.left_out = {bad};
  status.left_out_files = 9;
  const v1::DatasetState state = ToProto(status);
  CHECK(state.left_out_files() == 9);
  REQUIRE(state.left_out_size() == 1);
  CHECK(state.left_out(0).name() == "a\\x0ab");
  CHECK(state.left_out(0).reason() == "short");
}

TEST_CASE("a worker compiles with variant and overrides, and lists files", "[adapters]") {
  const Library of;
  const auto provider = MakePlanProvider(of.library);
  REQUIRE(provider->CompilePlan(Text(kPipeline)).ok());
  CHECK(provider->CompilePlan(Text(kPipeline, "batch.size=x")).status().code() ==
        StatusCode::kInvalidArgument);
  const std::vector<v1::FileEntry> files = provider->ListFiles("d");
  REQUIRE(files.size() == 1);
  CHECK(files[0].name() == "a.bin");
  CHECK(files[0].size() == file_size(of.dir / "a.bin"));
  CHECK(files[0].digest().size() == 16);
  CHECK(provider->ListFiles("no").empty());
  CHECK(provider->DatasetStates().at("d").digest().size() == 32);
}

TEST_CASE("whether a plan can be compiled is asked of its dataset", "[adapters]") {
  const Library of;
  const auto provider = MakePlanProvider(of.library);
  v1::PlanSpec spec;
  *spec.mutable_pipeline() = Text(kPipeline);
  CHECK(provider->CanCompile(spec));
  spec.add_datasets("no");
  CHECK(provider->CanCompile(spec));  // the error comes only when the plan is compiled
}

TEST_CASE("a plan waits until all datasets that it is said to need are open", "[adapters]") {
  const Library first;
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets["d"].dir = options.datasets["e"].dir = first.dir.path();
  options.cache_dir = first.dir.path();
  options.open_ahead = true;
  const auto library = std::make_shared<PlanLibrary>(options, MakeNullLogger());
  const auto provider = MakePlanProvider(library);
  v1::PlanSpec spec;
  for (const char* dataset : {"d", "e"}) spec.add_datasets(dataset);
  REQUIRE(library->Open("d").ok());
  CHECK_FALSE(provider->CanCompile(spec));
  REQUIRE(library->Open("e").ok());
  CHECK(provider->CanCompile(spec));
}

TEST_CASE("a dispatcher's facts are those of the plan, kept alive or not", "[adapters]") {
  const Library of;
  const auto plan = of.library->Compile(PipelineSource{.yaml = kPipeline}).value();
  for (const bool keep_plans : {false, true}) {
    const auto facts = MakePlanCompiler(of.library, keep_plans)->Compile(Text(kPipeline));
    REQUIRE(facts.ok());
    CHECK((*facts)->fingerprint() == plan->facts().fingerprint());
    REQUIRE((*facts)->datasets().size() == 1);
    CHECK((*facts)->datasets()[0].id == "d");
    CHECK((*facts)->datasets()[0].digest == plan->facts().fingerprint().dataset);
  }
}

TEST_CASE("the facts of a plan that another process has compiled are those of one compiled here",
          "[adapters]") {
  const Library of;
  const v1::PipelineText text = Text(kPipeline, "batch.remainder=drop");
  const auto compiler = MakePlanCompiler(of.library, false);
  const auto here = compiler->Compile(text).value();
  const auto plan =
      of.library->Compile(PipelineSource{.yaml = kPipeline, .overrides = {"batch.remainder=drop"}})
          .value();
  v1::PlanOutline outline = plan->facts().ToProto();
  const auto read = compiler->Read(text, outline).value();
  CHECK(read->fingerprint() == here->fingerprint());
  CHECK(read->order_fingerprint() == here->order_fingerprint());
  CHECK(read->canonical_text() == here->canonical_text());
  CHECK(read->static_digest() == here->static_digest());
  CHECK(read->code() == here->code());
  REQUIRE(read->datasets().size() == 1);
  CHECK(read->datasets()[0].id == "d");
  CHECK(read->datasets()[0].digest == here->datasets()[0].digest);
  for (const std::uint32_t world_size : {1, 2}) {
    CHECK(read->Spec(world_size)->SerializeAsString() ==
          here->Spec(world_size)->SerializeAsString());
    CHECK(read->Steps(world_size)->StepsFrom(0) == here->Steps(world_size)->StepsFrom(0));
  }

  outline.add_dataset_digests(std::string(32, '0'));
  CHECK(compiler->Read(text, outline).status() ==
        InvalidArgument("a worker's plan has 2 datasets: expected 1"));
  outline.set_fingerprint("x");
  CHECK_FALSE(compiler->Read(text, outline).ok());
}

TEST_CASE("a dispatcher without a worker names the plugins that it lacks", "[adapters]") {
  const Library of;
  const std::string source = "millrace: 1\nsource: {python: \"asr:Corpus\"}\nbatch: {size: 2}\n";
  const std::string function =
      "millrace: 1\ndataset: d\nsource: {python: \"asr:Corpus\"}\nbatch: {size: 2}\n"
      "tensors: {mel: {python: \"features:mel\", inputs: [audio], type: \"float32[*]\"}}\n";
  const auto alone = MakePlanCompiler(of.library, false);
  CHECK(alone->MissingPlugins(Text(kPipeline)).empty());
  CHECK(alone->MissingPlugins(Text(source)) == std::vector<std::string>{"plugin:asr"});
  CHECK(alone->MissingPlugins(Text(function)) ==
        std::vector<std::string>{"plugin:asr", "plugin:features"});
  CHECK(MakePlanCompiler(of.library, true)->MissingPlugins(Text(source)).empty());
  // Measured columns of a dataset that it does not know are kept in the cache.
  const auto known = of.library->ColumnFoldersOf("d");
  REQUIRE(known.size() == 2);
  CHECK(known[0] == of.dir / ".millrace.columns");
  REQUIRE(of.library->ColumnFoldersOf("plugin:asr").size() == 1);
  CHECK(of.library->ColumnFoldersOf("plugin:asr") != of.library->ColumnFoldersOf("plugin:other"));
}

TEST_CASE("plans are kept for a worker of the same process alone", "[adapters]") {
  for (const bool keep_plans : {false, true}) {
    const Library of;
    const auto facts = MakePlanCompiler(of.library, keep_plans)->Compile(Text(kPipeline)).value();
    // A plan in use is shared; after it was dropped, it is made anew.
    std::weak_ptr<const Plan> first =
        of.library->Compile(PipelineSource{.yaml = kPipeline}).value();
    CHECK(first.expired() != keep_plans);
  }
}

}  // namespace
}  // namespace millrace::test
