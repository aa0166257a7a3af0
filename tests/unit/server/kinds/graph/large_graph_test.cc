// Graphs whose arrays are larger than memory: files with holes, which take no room on the disk.
#include <catch2/catch.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "server/kinds/graph/graph_parts.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"
#include "tests/unit/server/kinds/graph/graph_source_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::GraphFolder;
using test::Numbers;

/// Adds a raw array of zeros. Its digest is none, as nobody compares it here.
void AddHoles(GraphFolder& folder, const std::string& name, ArrayType type) {
  const std::string path = name.substr(name.find('/') + 1) + ".raw";
  test::WriteText(folder.dir / path, "");
  const std::uint64_t bytes = *type.Bytes();
  fs::resize_file(folder.dir / path, bytes);
  folder.description.arrays[name] = {path, std::move(type), 0, bytes, Digest128{1, 2}};
}

/// The flags of the mapping of a file, as the kernel shows them ("rd sh rr …").
std::string MappingFlags(const fs::path& file) {
  std::ifstream maps("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    found = found || line.ends_with(file.string());
    if (found && line.starts_with("VmFlags:")) return line + " ";
  }
  return "none";
}

TEST_CASE("an array is mapped and never loaded, however large", "[large_graph]") {
  constexpr std::uint64_t kNodes = std::uint64_t{1} << 34;
  GraphFolder folder(kNodes, 0);
  AddHoles(folder, "indptr", {DType::kUint32, {kNodes + 1}});
  AddHoles(folder, "indices", {DType::kUint32, {0}});
  AddHoles(folder, "node_feature/x", {DType::kUint8, {kNodes, 64}});  // 1 TiB
  folder.Add<std::int64_t>("roots/last", DType::kInt64, {static_cast<std::int64_t>(kNodes) - 1});
  REQUIRE(folder.Seal().ok());
  PlanParts parts = test::Parts("roots", "last");
  parts.Edit<GraphArraysPart>().features = {"x"};
  BufferPool pool;
  const auto batch = test::Build(*test::MustMake(folder.dir.path(), parts), {0}, pool);
  INFO(batch.status().message());
  REQUIRE(batch.ok());
  CHECK(test::Values(**batch, "node") == Numbers{static_cast<std::int64_t>(kNodes) - 1});
  CHECK(test::ValuesAs<std::uint8_t>(**batch, "node_feature/x") == std::vector<std::uint8_t>(64));
  CHECK(test::MustMake(folder.dir.path(), test::Parts("roots", "all"))->examples() == kNodes);
}

TEST_CASE("rows of features are read each from its own place", "[large_graph]") {
  GraphFolder folder(4096, 0);
  AddHoles(folder, "indptr", {DType::kUint32, {4097}});
  AddHoles(folder, "indices", {DType::kUint32, {0}});
  AddHoles(folder, "node_feature/x", {DType::kFloat32, {4096, 4}});
  REQUIRE(folder.Seal().ok());
  const auto dataset = *folder.Open();
  const fs::path dir = fs::canonical(folder.dir.path());
  if (MappingFlags(dir / "x.raw") == "none") return;  // the kernel does not show them
  CHECK_THAT(MappingFlags(dir / "x.raw"), Contains(" rr "));
  CHECK_THAT(MappingFlags(dir / "indptr.raw"), !Contains(" rr "));
}

TEST_CASE("a row of 2^32 entries is refused, and one of fewer is too large an example",
          "[large_graph]") {
  constexpr std::int64_t kEntries = std::int64_t{1} << 32;
  GraphFolder folder(2, static_cast<std::uint64_t>(kEntries));
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, kEntries, kEntries});
  AddHoles(folder, "indices", {DType::kUint32, {static_cast<std::uint64_t>(kEntries)}});
  REQUIRE(folder.Seal().ok());
  CHECK_THAT((*folder.Open())->Row(0).status().message(),
             Contains("indptr.npy (array indptr): number 0 and the next are 0 and 4294967296, "
                      "expected a row of fewer than 2^32 of the 4294967296 edges"));
  BufferPool pool;
  const auto build = [&](ClosureKernel kernel) {
    PlanParts parts = test::Parts("roots", "all");
    parts.Edit<ClosurePart>().kernel = kernel;
    return test::Build(*test::MustMake(folder.dir.path(), parts), {0, 1}, pool);
  };
  for (const ClosureKernel kernel :
       {ClosureKernel::kArray, ClosureKernel::kTable, ClosureKernel::kInTurns}) {
    CHECK_THAT(build(kernel).status().message(), Contains("indptr.npy (array indptr): number 0"));
  }
  test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 1, kEntries - 1);
  for (const ClosureKernel kernel :
       {ClosureKernel::kArray, ClosureKernel::kTable, ClosureKernel::kInTurns}) {
    const auto batch = build(kernel);
    INFO(batch.status().message());
    REQUIRE(batch.ok());
    // The edge that node 1 has left leads to node 0.
    REQUIRE((*batch)->info().dropped.size() == 2);
    CHECK((*batch)->info().dropped[0].reason == DropReason::kTooLarge);
    CHECK((*batch)->info().dropped[1].reason == DropReason::kTooLarge);
  }
}

}  // namespace
}  // namespace millrace
