// Folders of graph datasets that are damaged in every way, before and after they are opened: each
// error names the file and its array, and nothing crashes.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/files/sigbus_guard.h"
#include "server/kinds/graph/format/graph_json.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

std::string BytesOfFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
/// Writes into the file itself.
void PutBytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// A graph with arrays of every role, and a pipeline that reads all of them.
class HostileWorld {
 public:
  HostileWorld() {
    GraphGeneratorReport report;
    const GraphGeneratorOptions made = {.nodes = 2000,
                                        .features = 8,
                                        .edge_features = 2,
                                        .node_labels = 4,
                                        .edge_labels = 2,
                                        .roots = 1500};
    REQUIRE(GenerateGraph(folder, made, &report).ok());
    const auto read = ReadGraphJson(BytesOfFile(folder / "graph.json"));
    REQUIRE(read.ok());
    description = *read;
    Close();
  }

  /// Forgets the dataset, so that the next plan opens it again.
  void Close() {
    PlanLibraryOptions options;
    options.kinds = ProductKinds();
    options.datasets["g"].dir = folder;
    options.cache_dir = dir / "cache";
    library = std::make_unique<PlanLibrary>(std::move(options), MakeNullLogger());
  }
  Result<std::shared_ptr<const Plan>> Compile() const {
    PipelineSource pipeline;
    pipeline.yaml =
        "millrace: 1\ndataset: g\nsource: {roots: train}\nclosure: {max_subgraph_size: 20}\n"
        "features: [x]\nedge_features: [w]\ntargets: [y]\nbatch: {size: 8, remainder: keep}\n";
    return library->Compile(pipeline);
  }
  static Result<std::shared_ptr<const PackedBatch>> BuildAll(const Plan& plan) {
    const auto scratch = plan.NewScratch();
    return plan.Batch(0, {0, static_cast<std::uint32_t>(plan.counts().selected)}, *scratch);
  }
  /// What every error about an array contains.
  std::string Where(const std::string& array) const {
    return description.arrays.at(array).path + " (array " + array + ")";
  }

  TempDir dir;
  const fs::path folder = dir / "graph";
  GraphDescription description;
  std::unique_ptr<PlanLibrary> library;
};

TEST_CASE("an array that is damaged before its folder is opened is named, with its file",
          "[hostile_graph]") {
  HostileWorld world;
  REQUIRE(world.Compile().ok());
  for (const auto& entry : world.description.arrays) {
    const fs::path file = world.folder / entry.second.path;
    const std::string bytes = BytesOfFile(file);
    std::string other_type = bytes;
    const std::size_t type = bytes.find("'<") + 2;  // of "{'descr': '<i8', …"
    other_type[type] = bytes[type] == 'u' ? 'i' : 'u';
    const std::vector<std::pair<const char*, std::string>> damages = {
        {"cut", bytes.substr(0, bytes.size() - 1)},
        {"empty", ""},
        {"grown", bytes + "x"},
        {"another type", other_type},
        {"no header", std::string(bytes.size(), 'x')}};
    for (const auto& [what, damaged] : damages) {
      INFO(entry.first << ": " << what);
      PutBytes(file, damaged);
      world.Close();
      const Status status = world.Compile().status();
      CHECK(status.code() == StatusCode::kDataLoss);
      CHECK_THAT(status.message(), Catch::Contains(world.Where(entry.first)));
    }
    fs::remove(file);
    world.Close();
    CHECK_THAT(world.Compile().status().message(), Catch::Contains(world.Where(entry.first)));
    PutBytes(file, bytes);
  }
  world.Close();
  CHECK(world.Compile().ok());
}

TEST_CASE("numbers that are out of range are named where they are read, or harm nothing",
          "[hostile_graph]") {
  HostileWorld world;
  for (const auto& entry : world.description.arrays) {
    INFO(entry.first);
    const fs::path file = world.folder / entry.second.path;
    const std::string bytes = BytesOfFile(file);
    std::string worst = bytes;
    std::fill(worst.begin() + static_cast<std::ptrdiff_t>(entry.second.offset), worst.end(),
              '\xff');
    PutBytes(file, worst);
    world.Close();
    const auto plan = world.Compile();
    const Status status = plan.ok() ? HostileWorld::BuildAll(**plan).status() : plan.status();
    const bool any_value =
        entry.first.starts_with("targets/") || entry.first.find("_feature/") != std::string::npos;
    CHECK(status.ok() == any_value);
    if (!any_value) CHECK_THAT(status.message(), Catch::Contains(world.Where(entry.first)));
    // Contents are compared too, so even those that harm nothing are found.
    while (plan.ok() && world.library->GetStatus("g")->unverified > 0) world.library->CheckFiles();
    if (plan.ok()) {
      CHECK_THAT(HostileWorld::BuildAll(**plan).status().message(),
                 Catch::Contains(world.Where(entry.first)));
    }
    PutBytes(file, bytes);
  }
}

TEST_CASE("an array that is written to while it is served is named, and its plans end",
          "[hostile_graph]") {
  InstallSigbusGuard();
  enum Damage { kCutOff, kGrown, kOverwritten };
  const Damage damage = GENERATE(kCutOff, kGrown, kOverwritten);
  HostileWorld world;
  for (const auto& entry : world.description.arrays) {
    INFO(entry.first << ", " << damage);
    const fs::path file = world.folder / entry.second.path;
    const std::string bytes = BytesOfFile(file);
    world.Close();
    const auto plan = world.Compile();
    REQUIRE(plan.ok());
    REQUIRE(HostileWorld::BuildAll(**plan).ok());
    if (damage == kCutOff) fs::resize_file(file, 100);
    if (damage == kGrown) fs::resize_file(file, bytes.size() + 5000);
    if (damage == kOverwritten) {
      std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
      out.seekp(static_cast<std::streamoff>(bytes.size() - 1));
      out.put(static_cast<char>(bytes.back() ^ 1));
      out.close();
      fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(2));
    }
    CHECK(world.library->CheckFiles());
    CHECK_THAT(HostileWorld::BuildAll(**plan).status().message(),
               Catch::Contains(world.Where(entry.first)));
    CHECK_THAT(world.Compile().status().message(), Catch::Contains(world.Where(entry.first)));
    PutBytes(file, bytes);
  }
}

TEST_CASE("a folder whose files are replaced while it is served gives the same batches",
          "[hostile_graph]") {
  const HostileWorld world;
  const auto plan = *world.Compile();
  const Digest128 before = (*HostileWorld::BuildAll(*plan))->payload_hash();
  for (const auto& entry : world.description.arrays) {
    const fs::path file = world.folder / entry.second.path;
    PutBytes(world.dir / "new", std::string(5, 'x'));
    fs::rename(world.dir / "new", file);
  }
  CHECK_FALSE(world.library->CheckFiles());
  CHECK((*HostileWorld::BuildAll(*plan))->payload_hash() == before);
}

}  // namespace
}  // namespace millrace::test
