// Compares the reference loader's output for the reference datasets with `millrace digest`, line by
// line. This covers the whole way from files through index, plan, writer and expansion.

#include <catch2/catch.hpp>

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/plan_library.h"
#include "server/source/source.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/skip.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

std::vector<Json> ReadLines(const std::filesystem::path& path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

/// The pipeline that corresponds to a golden file's settings.
std::string PipelineOf(const Json& header) {
  const Json& config = header["config"];
  const Json& data = config["data_config"];
  const auto flag = [](const Json& value) {
    return std::string(value.get<bool>() ? "true" : "false");
  };
  const std::string method = config["split_method"];
  std::string yaml = "millrace: 1\ndataset: " + header["dataset"].get<std::string>() +
                     "\nsource: proof_states\nbatch: {size: 8}\nsplit: {method: " + method;
  if (method == "hash") {
    yaml += ", proportions: " + config["split"]["proportions"].dump() +
            ", seed: " + config["split"]["random_seed"].dump();
  } else if (method == "file_prefix") {
    yaml += ", prefixes: " + config["split"].dump();
  }
  yaml += "}\nfilter: {exclude_none_arguments: " + flag(config["exclude_none_arguments"]) +
          ", exclude_not_faithful: " + flag(config["exclude_not_faithful"]) +
          ", required_tactic_occurrence: " + config["required_tactic_occurrence"].dump() +
          ", restrict_to_spine: " + flag(config["restrict_to_spine"]) +
          "}\nclosure: {max_subgraph_size: " + data["max_subgraph_size"].dump() +
          ", order: " + (data["bfs_option"].get<bool>() ? "bfs" : "dfs") +
          ", stop_at_definitions: " + flag(data["stop_at_definitions"]) +
          "}\nedges: {symmetrization: " +
          (data["symmetrization"].is_null() ? "none" : data["symmetrization"].get<std::string>()) +
          ", add_self_edges: " + flag(data["add_self_edges"]) + "}\n";
  return yaml;
}

std::size_t FullLines(const std::vector<Json>& lines) {
  std::map<std::string, std::size_t> full;
  for (const Json& line : lines) {
    if (line.contains("full")) ++full[line["kind"]];
  }
  std::size_t most = 0;
  for (const auto& [kind, count] : full) most = std::max(most, count);
  return most;
}

/// Removes the offsets of a graph with no edges, for which the reference writes one zero for each
/// group.
void DropOffsetsOfNoEdges(Json& line) {
  if (line.contains("full") && line["full"]["edge_source"].empty()) {
    line["full"].erase("edge_offsets");
  }
}

void CompareWithGolden(const std::string& name) {
  const std::filesystem::path shared = SharedDirOrSkip();
  std::vector<Json> golden = ReadLines(shared / "golden" / (name + ".jsonl"));
  REQUIRE(golden.size() > 1);
  const std::string dataset = golden[0]["dataset"];
  const TempDir dir;
  std::ofstream(dir / "p.yaml") << PipelineOf(golden[0]);
  const std::string command =
      std::string(MILLRACE_BINARY) + " digest " + (dir / "p.yaml").string() + " --dataset " +
      dataset + "=" + (shared / "data" / dataset).string() + " --index " +
      (dir / "index").string() + " --full " + std::to_string(FullLines(golden)) + " > " +
      (dir / "out").string() + " 2> " + (dir / "errors").string();
  REQUIRE(std::system(command.c_str()) == 0);
  std::vector<Json> got = ReadLines(dir / "out");
  REQUIRE(got.size() == golden.size());
  golden[0].erase("config");
  golden[0].erase("config_name");
  std::size_t differing = 0;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    DropOffsetsOfNoEdges(golden[i]);
    DropOffsetsOfNoEdges(got[i]);
    if (golden[i] == got[i]) continue;
    UNSCOPED_INFO("line " << i + 1 << "\n  expected " << golden[i].dump().substr(0, 400)
                          << "\n  got      " << got[i].dump().substr(0, 400));
    if (++differing == 3) break;
  }
  CHECK(differing == 0);
}

/// Builds all examples of a golden file's pipeline twice through a cache. The bytes have to be
/// those without one.
void CompareThroughCache(const std::filesystem::path& golden) {
  const Json header = ReadLines(golden).at(0);
  INFO(golden.filename());
  const TempDir dir;
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets[header["dataset"]] = {
      golden.parent_path().parent_path() / "data" / header["dataset"].get<std::string>(),
      dir / "index"};
  PlanLibrary without(options, MakeNullLogger());
  options.examples = std::make_shared<BuiltExamples>(std::uint64_t{1} << 30);
  PlanLibrary with(options, MakeNullLogger());
  PipelineSource source;
  source.yaml = PipelineOf(header) + "cache: {examples: memory}\n";
  const auto expected = without.Compile(source);
  const auto cached = with.Compile(source);
  REQUIRE(expected.ok());
  REQUIRE(cached.ok());
  CHECK((*cached)->facts().fingerprint() == (*expected)->facts().fingerprint());
  std::vector<ExampleId> all;
  for (std::uint64_t id = 0; id < (*expected)->source()->examples(); ++id) all.emplace_back(id);
  const auto batch = (*expected)->BatchOf(all, 0, *(*expected)->NewScratch());
  REQUIRE(batch.ok());
  for (int round = 0; round < 2; ++round) {
    const auto same = (*cached)->BatchOf(all, 0, *(*cached)->NewScratch());
    REQUIRE(same.ok());
    CHECK(std::equal((*same)->bytes().begin(), (*same)->bytes().end(), (*batch)->bytes().begin(),
                     (*batch)->bytes().end()));
    CHECK(options.examples->stats().builds == all.size());
    CHECK(options.examples->stats().cache.memory.hits == all.size() * static_cast<unsigned>(round));
  }
}

TEST_CASE("every golden pipeline has the same bytes through a cache", "[golden][cached]") {
  const std::filesystem::path shared = SharedDirOrSkip();
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shared / "golden")) {
    if (entry.path().extension() != ".jsonl") continue;
    CompareThroughCache(entry.path());
    ++files;
  }
  CHECK(files == 9);
}

TEST_CASE("mini_stdlib with the default settings equals the reference", "[golden]") {
  CompareWithGolden("mini_stdlib.default");
}
TEST_CASE("mini_stdlib cut small, depth first, equals the reference", "[golden]") {
  CompareWithGolden("mini_stdlib.small_dfs");
}
TEST_CASE("mini_stdlib restricted to the spine, filtered, equals the reference", "[golden]") {
  CompareWithGolden("mini_stdlib.spine_filters");
}
TEST_CASE("mini_stdlib undirected, through definitions, equals the reference", "[golden]") {
  CompareWithGolden("mini_stdlib.undirected_open");
}
TEST_CASE("propchain_dep cut to four nodes equals the reference", "[golden]") {
  CompareWithGolden("propchain_dep.tiny");
}
TEST_CASE("propchain_small with the default settings equals the reference", "[golden]") {
  CompareWithGolden("propchain_small.default");
}
TEST_CASE("propchain_small depth first, through definitions, equals the reference", "[golden]") {
  CompareWithGolden("propchain_small.open_dfs");
}
TEST_CASE("propositional equals the reference", "[golden]") {
  CompareWithGolden("propositional.default");
}
TEST_CASE("identities that occur twice equal the reference", "[golden]") {
  CompareWithGolden("duplicate_identities.default");
}

TEST_CASE("no golden file is left out", "[golden]") {
  const std::filesystem::path shared = SharedDirOrSkip();
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shared / "golden")) {
    files += entry.path().extension() == ".jsonl" ? 1 : 0;
  }
  CHECK(files == 9);
}

}  // namespace
}  // namespace millrace::test
