#include "server/kinds/graph/writer/graph_sealer.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>

#include "server/files/npy_header.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::SmallGraphFolder;

TEST_CASE("arrays of a safetensors file are found by their names", "[graph_sealer]") {
  const SmallGraphFolder folder;
  const std::string header = R"({"x":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]},)"
                             R"("w":{"dtype":"U8","shape":[5],"data_offsets":[16,21]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  test::WriteText(folder.dir / "all.safetensors", file + header + std::string(21, '\x02'));
  GraphSealer sealer(folder.dir.path(), folder.description);
  const auto add = [&](const std::string& name, const std::string& tensor) {
    return sealer.Add(name, ArrayFile{.path = "all.safetensors", .tensor = tensor});
  };
  REQUIRE(add("node_feature/b", "x").ok());
  REQUIRE(add("edge_feature/w", "w").ok());
  CHECK_THAT(
      add("edge_feature/v", "v").message(),
      Contains("all.safetensors (array edge_feature/v): has no tensor 'v'; it has 'w', 'x'"));
  REQUIRE(sealer.Seal().ok());
  const auto dataset = *folder.Open();
  CHECK(dataset->Find("node_feature/b")->type == ArrayType{DType::kBFloat16, {4, 2}});
  CHECK(std::to_integer<int>(dataset->Find("edge_feature/w")->data[4]) == 2);
  // Both arrays lie in one mapped file, which is named with both.
  bool named = false;
  for (const WatchedFile& watched : dataset->files().files()) {
    named |= watched.name == "all.safetensors (array edge_feature/w, node_feature/b)";
  }
  CHECK(named);
}

TEST_CASE("files that cannot be arrays are refused with file and array", "[graph_sealer]") {
  const SmallGraphFolder folder;
  GraphSealer sealer(folder.dir.path(), folder.description);
  CHECK_THAT(sealer.Add("node_feature/y", ArrayFile{.path = "none.npy"}).message(),
             Contains("none.npy (array node_feature/y): cannot be opened"));
  test::WriteText(folder.dir / "raw.bin", "12345678");
  CHECK_THAT(sealer.Add("node_feature/y", ArrayFile{.path = "raw.bin"}).message(),
             Contains("raw.bin (array node_feature/y)") && Contains("say dtype and shape"));
  CHECK_THAT(sealer
                 .Add("node_feature/y", ArrayFile{.path = "node_feature/x.npy",
                                                  .type = ArrayType{DType::kInt32, {4, 2}}})
                 .message(),
             Contains("its header says float32 [4, 2], expected int32 [4, 2]"));
  test::WriteText(folder.dir / "bad.npy", "PK\x03\x04");
  CHECK_THAT(sealer.Add("node_feature/y", ArrayFile{.path = "bad.npy"}).message(),
             Contains("bad.npy (array node_feature/y)") && Contains(".npz"));
}

TEST_CASE("a folder whose arrays do not fit together gets no graph.json", "[graph_sealer]") {
  SmallGraphFolder folder;
  SECTION("a shape") { folder.Add<std::uint8_t>("node_feature/y", DType::kUint8, {1, 2, 3}); }
  SECTION("the end of indptr") {
    fs::remove(folder.dir / "indptr.npy");
    folder.Add<std::int64_t>("indptr", DType::kInt64, {0, 3, 4, 5, 6});
  }
  const auto sealed = folder.Seal();
  CHECK(sealed.status().code() == StatusCode::kDataLoss);
  CHECK_FALSE(fs::exists(folder.dir / "graph.json"));
  CHECK_FALSE(fs::exists(folder.dir / "graph.json.partial"));
}

TEST_CASE("a folder with a wrong number gets no graph.json if numbers are checked",
          "[graph_sealer]") {
  const SmallGraphFolder folder;  // 0 -> 2 leads from the graph {0, 1} to {2, 3}
  const auto sealed = GraphSealer(folder.dir.path(), folder.description).Seal(SealCheck::kNumbers);
  CHECK_THAT(sealed.status().message(), Contains("no edge leads from one small graph to another"));
  CHECK_FALSE(fs::exists(folder.dir / "graph.json"));
  CHECK(folder.Seal().ok());
}

TEST_CASE("an array's file is never overwritten, and gets all of its values", "[graph_sealer]") {
  const test::TempDir dir;
  auto first = ArrayWriter::Create(dir.path(), "a/x.npy", {DType::kUint8, {2}});
  REQUIRE(first.ok());
  CHECK_FALSE(ArrayWriter::Create(dir.path(), "a/x.npy", {DType::kUint8, {2}}).ok());
  REQUIRE(first->Append(std::uint8_t{1}).ok());
  const auto record = std::move(*first).Finish();
  CHECK_THAT(record.status().message(), Contains("x.npy: 129 bytes were written, expected 130"));
}

}  // namespace
}  // namespace millrace
