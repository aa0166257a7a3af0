// What is built again of a Coq dataset after a change, counted.
#include <catch2/catch.hpp>

#include <filesystem>
#include <string>

#include "server/kinds/coq/generator/generator.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/plan/cache/cached_world.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

/// Three files with 3 proof states each: b requires a, and c stands alone. So their order is a, c,
/// b. They are built already.
struct ThreeFiles : CachedWorld {
  ThreeFiles() {
    WriteFixture(data, a);
    WriteFixture(data, b);
    WriteFixture(data, c);
    CHECK(Builds() == 9);
  }
  FixtureFile a = SampleFile("a.bin");
  FixtureFile b = SampleFile("b.bin", {"a.bin"});
  FixtureFile c = SampleFile("c.bin");
};

void Rewrite(ThreeFiles& world, FixtureFile& file, const std::string& text) {
  file.definitions[4].steps[1].outcomes[0].text = text;
  WriteFixture(world.data, file);
}

/// Another definition at the end of a file, which shifts the labels of all files after it.
void AddDefinition(ThreeFiles& world, FixtureFile& file) {
  file.nodes.push_back({.tag = 3, .identity = 900});
  file.definitions.push_back({.node = static_cast<std::uint32_t>(file.nodes.size() - 1),
                              .name = file.name + ".more",
                              .previous = 3,
                              .discharged = 4});
  WriteFixture(world.data, file);
}

TEST_CASE("another order, batch or selection builds no example again", "[cached]") {
  const ThreeFiles world;
  for (const char* const more :
       {"", "shuffle: {seed: 1}\n", "shuffle: {seed: 2}\n", "shuffle: {seed: 2, block: 2}\n",
        "batch: {size: 2, remainder: keep}\n", "batch: {size: 5, remainder: drop}\n",
        "batch: {bucket: {by: nodes, count: 2, size: 2}}\n",
        "balance: {by: nodes}\nshuffle: {seed: 2}\n",
        "split: {method: hash, proportions: [1, 1], take: 0}\n",
        "split: {method: file_prefix, prefixes: [[c]], take: 1}\n",
        "filter: {where: \"file > 0\"}\n", "filter: {exclude_not_faithful: true}\n",
        "exclude: {examples: [2, 7]}\n"}) {
    INFO(more);
    CHECK(world.Builds(more) == 0);
  }
}

TEST_CASE("later operations build no example again", "[cached]") {
  const ThreeFiles world;
  for (const char* const more :
       {"output: [node_label, tactic]\n", "pad: {graph: {nodes: 64, edges: 256, graphs: 5}}\n",
        "tensors: {first: {cast: tactic, dtype: float32}}\noutput: [first]\n",
        "tensors: {first: {cast: tactic, dtype: float32}, last: {expr: \"first + 1\"}}\n",
        "tensors: {first: {cast: tactic, dtype: float32}, last: {expr: \"first + 2\"}}\n",
        "tensors: {first: {cast: tactic, dtype: float64, at: worker}}\n",
        "edges: {symmetrization: none}\n"}) {
    INFO(more);
    CHECK(world.Builds(more) == 0);
  }
}

TEST_CASE("what decides how an example is built builds all of them again", "[cached]") {
  const ThreeFiles world;
  for (const char* const more :
       {"closure: {max_subgraph_size: 4}\n", "closure: {order: dfs}\n",
        "closure: {stop_at_definitions: false}\n", "fields: {text: true}\n",
        "fields: {global_context: none}\n", "fields: {global_context: full}\n",
        "filter: {restrict_to_spine: true}\n"}) {
    INFO(more);
    CHECK(world.Builds(more) == 9);
    CHECK(world.Builds(more) == 0);
  }
  CHECK(world.Builds() == 0);
}

TEST_CASE("sources do not share examples", "[cached]") {
  ThreeFiles world;
  world.source = "definitions";
  CHECK(world.Builds() == 12);
  CHECK(world.Builds() == 0);
}

TEST_CASE("a file that was only touched is not read again", "[cached]") {
  const ThreeFiles world;
  fs::last_write_time(world.data / "a.bin",
                      fs::file_time_type::clock::now() + std::chrono::seconds(5));
  CHECK(world.Builds() == 0);
}

TEST_CASE("a changed file builds its examples again, and those of files that require it",
          "[cached]") {
  ThreeFiles world;
  Rewrite(world, world.c, "H : T |- other");
  CHECK(world.Builds() == 3);
  Rewrite(world, world.b, "H : T |- other");
  CHECK(world.Builds() == 3);
  Rewrite(world, world.a, "H : T |- other");
  CHECK(world.Builds() == 6);
  // What is as it was before is still there.
  Rewrite(world, world.a, "H : T |- a.bin");
  CHECK(world.Builds() == 0);
}

TEST_CASE("a file that comes or goes leaves the examples of others alone if it shifts no label",
          "[cached]") {
  ThreeFiles world;
  WriteFixture(world.data, SampleFile("d.bin", {"b.bin"}));
  CHECK(world.Builds() == 3);
  fs::remove(world.data / "d.bin");
  CHECK(world.Builds() == 0);
  fs::remove(world.data / "b.bin");
  CHECK(world.Builds() == 0);
  // A file without definitions comes first, and so each other file has another number.
  FixtureFile empty;
  empty.name = "0.bin";
  empty.nodes = {{.tag = 8}};
  WriteFixture(world.data, empty);
  CHECK(world.Builds() == 0);
}

TEST_CASE("a shifted label builds the examples of all files behind it again", "[cached]") {
  ThreeFiles world;
  WriteFixture(world.data, SampleFile("0.bin"));
  CHECK(world.Builds() == 12);
  fs::remove(world.data / "0.bin");
  CHECK(world.Builds() == 0);
  AddDefinition(world, world.b);
  CHECK(world.Builds() == 3);
  AddDefinition(world, world.c);
  CHECK(world.Builds() == 6);  // those of c and b
  AddDefinition(world, world.a);
  CHECK(world.Builds() == 9);
}

TEST_CASE("another order of the same files builds again what lies elsewhere now", "[cached]") {
  ThreeFiles world;
  // Now a requires c, so that c comes first.
  world.a.dependencies = {"c.bin"};
  WriteFixture(world.data, world.a);
  CHECK(world.Builds() == 9);
}

TEST_CASE("renumbered tactics build again only what has another number", "[cached]") {
  ThreeFiles world;
  // The first proof of the dataset now meets the two tactics the other way round: 0 and 1 become 1
  // and 0, in all files.
  std::swap(world.a.definitions[4].steps[1].ident, world.a.definitions[4].steps[3].ident);
  world.a.definitions[4].steps[0].ident = 9;
  WriteFixture(world.data, world.a);
  CHECK(world.Builds() == 9);
  // Another tactic that is met last changes no number.
  world.c.definitions[4].steps[3].ident = 11;
  WriteFixture(world.data, world.c);
  CHECK(world.Builds() == 3);
}

TEST_CASE("an excluded file drops its examples anew, and builds no others", "[cached]") {
  const ThreeFiles world;
  CHECK(world.Builds("exclude: {files: [c.bin]}\n") == 3);
  CHECK(world.Builds("exclude: {files: [c.bin]}\n") == 0);
  CHECK(world.Builds("exclude: {files: [a.bin]}\n") == 6);
  CHECK(world.Builds() == 0);
}

TEST_CASE("a dataset elsewhere with the same files has the same examples", "[cached]") {
  ThreeFiles world;
  fs::copy(world.data, world.dir / "copy", fs::copy_options::recursive);
  world.data = world.dir / "copy";
  CHECK(world.Builds() == 0);
}

TEST_CASE("a dataset that was replaced is built anew", "[cached]") {
  ThreeFiles world;
  fs::remove_all(world.data);
  GeneratorReport report;
  REQUIRE(GenerateDataset(world.data, {.nodes = 3000, .files = 3}, &report).ok());
  CHECK(world.Builds() > 0);
  CHECK(world.Builds() == 0);
}

TEST_CASE("types of tensors that the numbers of rows decide are part of the key", "[cached]") {
  ThreeFiles world;
  // More than 256 labels: node labels get two bytes. The file comes last.
  FixtureFile big = SampleFile("d.bin");
  for (std::uint32_t i = 0; i < 300; ++i) {
    big.nodes.push_back({.tag = 3, .identity = 1000 + i});
    big.definitions.push_back({.node = static_cast<std::uint32_t>(big.nodes.size() - 1),
                               .name = "more" + std::to_string(i),
                               .previous = 3,
                               .discharged = 4});
  }
  WriteFixture(world.data, big);
  CHECK(world.Builds() == 12);
}

TEST_CASE("a cache is part of no digest", "[cached]") {
  const ThreeFiles world;
  PlanLibrary library(world.Options(nullptr), MakeNullLogger());
  const Pipeline without = *library.Parse(world.Text("shuffle: {seed: 1}\n"));
  const Pipeline with = *library.Parse(world.Text("shuffle: {seed: 1}\ncache: {examples: disk}\n"));
  CHECK(with.canonical_text() == without.canonical_text());
  CHECK(with.digest() == without.digest());
  CHECK(with.order_digest() == without.order_digest());
  CHECK(with.build_digest() == without.build_digest());
  for (const StageConfig& stage : without.stages()) {
    CHECK(with.Find(stage.type->name)->fingerprint == stage.fingerprint);
  }
}

TEST_CASE("a process without a cache builds a pipeline that asks for one", "[cached]") {
  const ThreeFiles world;
  CHECK(Same(world.Uncached("cache: {examples: memory}\n"), world.Uncached()));
}

TEST_CASE("jobs with and without a cache each get what they ask for", "[cached]") {
  const ThreeFiles world;
  PlanLibrary library(world.Options(world.kept), MakeNullLogger());
  const auto without = library.Compile(world.Text(""));
  const auto with = library.Compile(world.Text("cache: {examples: memory}\n"));
  REQUIRE(with.ok());
  CHECK((*with)->facts().fingerprint() == (*without)->facts().fingerprint());
  const std::uint64_t hits = world.kept->stats().cache.memory.hits;
  CHECK(Same(TwoEpochs(**without), TwoEpochs(**with)));
  CHECK(world.kept->stats().cache.memory.hits == hits + 18);
}

TEST_CASE("a memory that is too small for an epoch gives the same bytes", "[cached]") {
  CachedWorld world;
  GeneratorReport report;
  REQUIRE(GenerateDataset(world.data, {.nodes = 20'000, .files = 5}, &report).ok());
  world.kept = std::make_shared<BuiltExamples>(100'000);
  CHECK(world.Builds("shuffle: {seed: 1}\n") > report.proof_states);
  CHECK(world.kept->stats().cache.memory.evictions > 0);
  CHECK(world.kept->stats().cache.memory.bytes <= 100'000);
}

TEST_CASE("measured columns fill the cache", "[cached]") {
  CachedWorld world;
  WriteFixture(world.data, SampleFile("a.bin"));
  CHECK(world.Builds("batch: {bucket: {by: nodes, count: 2, size: 2}}\n") == 3);
}

}  // namespace
}  // namespace millrace::test
