#include "server/kinds/graph/format/graph_dataset.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "server/files/sigbus_guard.h"
#include "tests/support/skip.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::GraphFolder;
using test::SmallGraphFolder;

std::string FolderError(const fs::path& dir) {
  const auto dataset = GraphDataset::Open(dir);
  REQUIRE_FALSE(dataset.ok());
  CHECK(dataset.status().code() == StatusCode::kDataLoss);
  CHECK_THAT(dataset.status().message(), Contains("dataset " + dir.string()));
  return dataset.status().message();
}

std::shared_ptr<const GraphDataset> OpenOrFail(const fs::path& dir) {
  auto dataset = GraphDataset::Open(dir);
  INFO(dataset.status().message());
  REQUIRE(dataset.ok());
  return *std::move(dataset);
}

template <class T>
std::string BadNumber(const Result<T>& result) {
  REQUIRE_FALSE(result.ok());
  CHECK(result.status().code() == StatusCode::kDataLoss);
  return result.status().message();
}

TEST_CASE("the golden graphs open", "[graph_dataset]") {
  const fs::path graphs = fs::path(test::SharedDirOrSkip()) / "golden-graphs/graphs";
  const auto labels = OpenOrFail(graphs / "labels");
  CHECK(labels->nodes() == 200);
  CHECK(labels->edge_labels() == 4);
  CHECK(labels->node_labels() == 65536);
  CHECK(labels->digest().ToHex() == "18f8ad4e53637f0c8e3701bfbc7d9e11");
  const auto tiny = OpenOrFail(graphs / "tiny");
  CHECK(tiny->edges() == 22);
  CHECK(tiny->edge_labels() == 1);
  CHECK(tiny->Find("roots/twice")->rows() == 5);
  const auto power = OpenOrFail(graphs / "power");
  CHECK(power->description().rows == GraphRows::kTarget);
  CHECK(power->Find("node_feature/x")->type == ArrayType{DType::kFloat16, {502, 6}});
  CHECK(power->Find("node_feature/y") == nullptr);
}

TEST_CASE("rows, labels, roots and small graphs are read", "[graph_dataset]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto dataset = OpenOrFail(folder.dir.path());
  CHECK(dataset->Row(0)->end == 3);
  CHECK(dataset->Row(3)->size() == 0);
  CHECK(*dataset->Neighbour(3) == 3);
  CHECK(*dataset->EdgeLabel(2) == 1);
  CHECK(*dataset->NodeLabel(2) == 2);
  CHECK(*dataset->Root(*dataset->Find("roots/some"), 2) == 2);
  const GraphArray& parts = *dataset->Find("graphs/parts");
  CHECK(dataset->SmallGraph(parts, 1)->size() == 0);
  CHECK(dataset->SmallGraph(parts, 2)->begin == 2);
}

TEST_CASE("a folder without graph.json is no dataset", "[graph_dataset]") {
  const SmallGraphFolder folder;
  CHECK_FALSE(IsGraphDataset(folder.dir.path()));
  const auto none = GraphDataset::Open(folder.dir.path());
  CHECK(none.status().code() == StatusCode::kNotFound);
  CHECK_THAT(none.status().message(), Contains("graph.json"));
  CHECK(GraphDataset::Open(folder.dir / "none").status().code() == StatusCode::kNotFound);
  REQUIRE(folder.Seal().ok());
  CHECK(IsGraphDataset(folder.dir.path()));
}

TEST_CASE("a file that was cut off or has grown is refused with file and array",
          "[graph_dataset]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const fs::path file = folder.dir / "indices.npy";
  const auto bytes = fs::file_size(file);
  fs::resize_file(file, bytes - 1);
  CHECK_THAT(FolderError(folder.dir.path()),
             Contains("indices.npy (array indices): has 147 bytes, expected 148: it was cut off"));
  fs::resize_file(file, bytes + 1);
  CHECK_THAT(FolderError(folder.dir.path()),
             Contains("indices.npy (array indices)") && Contains("has grown"));
  fs::remove(file);
  CHECK_THAT(FolderError(folder.dir.path()), Contains("indices.npy (array indices)"));
  fs::create_directory(file);
  CHECK_THAT(FolderError(folder.dir.path()), Contains("indices.npy (array indices): is a folder"));
}

TEST_CASE("a header that contradicts graph.json is refused with file and array",
          "[graph_dataset]") {
  SmallGraphFolder folder;
  // As many bytes, but of another type.
  folder.description.arrays["node_feature/x"].type = {DType::kInt32, {4, 2}};
  const auto sealed = folder.Seal();
  REQUIRE_FALSE(sealed.ok());
  CHECK_THAT(sealed.status().message(),
             Contains("node_feature/x.npy (array node_feature/x): its header says float32 [4, 2] "
                      "from byte 128 on, but graph.json int32 [4, 2] from byte 128 on"));
  CHECK_FALSE(IsGraphDataset(folder.dir.path()));
  // Or at another place.
  folder.description.arrays["node_feature/x"].type.dtype = DType::kFloat32;
  folder.description.arrays["node_feature/x"].offset = 64;
  CHECK_THAT(folder.Seal().status().message(),
             Contains("its header says float32 [4, 2] from byte 128 on, but graph.json float32 [4, "
                      "2] from byte 64 on"));
}

TEST_CASE("bfloat16 lies as uint16 in a .npy file", "[graph_dataset]") {
  SmallGraphFolder folder;
  folder.Add<std::uint16_t>("node_feature/b", DType::kBFloat16, {1, 2, 3, 4});
  REQUIRE(folder.Seal().ok());
  CHECK(OpenOrFail(folder.dir.path())->Find("node_feature/b")->type.dtype == DType::kBFloat16);
}

TEST_CASE("indptr that does not begin at 0 or end at the edges is refused", "[graph_dataset]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 0, -1);
  CHECK_THAT(FolderError(folder.dir.path()),
             Contains("indptr.npy (array indptr): number 0 is -1, expected 0"));
  test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 0, 0);
  test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 4, 6);
  CHECK_THAT(FolderError(folder.dir.path()),
             Contains("indptr.npy (array indptr): number 4 is 6, expected the 5 edges"));
  test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 4, 4);
  CHECK_THAT(FolderError(folder.dir.path()), Contains("number 4 is 4, expected the 5 edges"));
}

TEST_CASE("numbers out of range are found where they are read", "[graph_dataset]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  test::OverwriteValue<std::int64_t>(folder.dir / "indptr.npy", 1, 6);
  test::OverwriteValue<std::int32_t>(folder.dir / "indices.npy", 2, -1);
  test::OverwriteValue<std::uint8_t>(folder.dir / "edge_label.npy", 0, 2);
  test::OverwriteValue<std::int16_t>(folder.dir / "node_label.npy", 3, 3);
  test::OverwriteValue<std::uint32_t>(folder.dir / "roots/some.npy", 1, 4);
  test::OverwriteValue<std::int64_t>(folder.dir / "graphs/parts.npy", 1, 5);
  const auto dataset = OpenOrFail(folder.dir.path());
  CHECK_THAT(BadNumber(dataset->Row(0)), Contains("indptr.npy (array indptr): number 0 and the "
                                                  "next are 0 and 6, expected a row"));
  CHECK_THAT(BadNumber(dataset->Row(1)), Contains("are 6 and 4"));
  CHECK_THAT(BadNumber(dataset->Neighbour(2)),
             Contains("indices.npy (array indices): number 2 is -1, expected 0 to below 4"));
  CHECK_THAT(BadNumber(dataset->EdgeLabel(0)),
             Contains("edge_label.npy (array edge_label): number 0 is 2, expected 0 to below 2"));
  CHECK_THAT(BadNumber(dataset->NodeLabel(3)), Contains("node_label.npy (array node_label)"));
  CHECK_THAT(BadNumber(dataset->Root(*dataset->Find("roots/some"), 1)),
             Contains("roots/some.npy (array roots/some): number 1 is 4"));
  CHECK_THAT(BadNumber(dataset->SmallGraph(*dataset->Find("graphs/parts"), 0)),
             Contains("graphs/parts.npy (array graphs/parts): number 1 is 5"));
}

TEST_CASE("a small graph that ends before it begins is bad", "[graph_dataset]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  test::OverwriteValue<std::int64_t>(folder.dir / "graphs/parts.npy", 1, 3);
  const auto dataset = OpenOrFail(folder.dir.path());
  CHECK_THAT(BadNumber(dataset->SmallGraph(*dataset->Find("graphs/parts"), 1)),
             Contains("number 1 is 3, but the next is 2"));
}

TEST_CASE("raw files and absolute paths are read, also an empty file", "[graph_dataset]") {
  SmallGraphFolder folder;
  const test::TempDir elsewhere;
  test::WriteText(elsewhere / "x.bin", "head" + std::string(12, '\x01'));
  GraphSealer sealer(folder.dir.path(), folder.description);
  REQUIRE(
      sealer
          .Add("node_feature/raw",
               {.path = elsewhere / "x.bin", .type = ArrayType{DType::kUint8, {4, 3}}, .offset = 4})
          .ok());
  const auto digest = sealer.Seal();
  INFO(digest.status().message());
  REQUIRE(digest.ok());
  const auto dataset = OpenOrFail(folder.dir.path());
  CHECK(std::to_integer<int>(dataset->Find("node_feature/raw")->data[0]) == 1);
  // A graph without edges may have an empty file of edges.
  GraphFolder empty(1, 0);
  empty.Add<std::int32_t>("indptr", DType::kInt32, {0, 0});
  test::WriteText(empty.dir / "indices.bin", "");
  empty.description.arrays["indices"] = {
      "indices.bin", {DType::kInt32, {0}}, 0, 0, Xxh3(std::string_view())};
  REQUIRE(empty.Seal().ok());
  CHECK(OpenOrFail(empty.dir.path())->Row(0)->size() == 0);
  test::WriteText(empty.dir / "indices.bin", "x");
  CHECK_THAT(FolderError(empty.dir.path()), Contains("has 1 bytes, expected 0: it has grown"));
}

TEST_CASE("a file that is changed in place while it is in use is damaged", "[graph_dataset]") {
  InstallSigbusGuard();
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto dataset = OpenOrFail(folder.dir.path());
  CHECK(dataset->CheckFiles().damaged.empty());
  CHECK(dataset->Damages().empty());
  SECTION("cut off") {
    fs::resize_file(folder.dir / "indices.npy", 130);
    const FileNews news = dataset->CheckFiles();
    REQUIRE(news.damaged.size() == 1);
    CHECK(news.damaged[0].name == "indices.npy (array indices)");
    CHECK_THAT(news.damaged[0].what, Contains("has 130 bytes, had 148"));
    CHECK(dataset->CheckFiles().damaged.empty());  // told once
    CHECK(dataset->Damages().size() == 1);
  }
  SECTION("overwritten") {
    test::OverwriteValue<std::int32_t>(folder.dir / "indices.npy", 0, 2);
    fs::last_write_time(folder.dir / "indices.npy",
                        fs::last_write_time(folder.dir / "indices.npy") + std::chrono::seconds(2));
    const FileNews news = dataset->CheckFiles();
    REQUIRE(news.damaged.size() == 1);
    CHECK(news.damaged[0].name == "indices.npy (array indices)");
    CHECK_THAT(news.damaged[0].what, Contains("was written to while it was in use"));
  }
  SECTION("touched") {
    fs::last_write_time(folder.dir / "indices.npy",
                        fs::last_write_time(folder.dir / "indices.npy") + std::chrono::seconds(2));
    dataset->CheckFiles();
    const FileNews news = dataset->CheckFiles();
    CHECK(news.damaged.empty());
    CHECK(news.touched == std::vector<std::string>{"indices.npy (array indices)"});
    CHECK(dataset->Damages().empty());
  }
  SECTION("replaced") {
    fs::copy_file(folder.dir / "indices.npy", folder.dir / "other");
    fs::rename(folder.dir / "other", folder.dir / "indices.npy");
    const FileNews news = dataset->CheckFiles();
    REQUIRE(news.replaced.size() == 1);
    CHECK(news.replaced[0].name == "indices.npy (array indices)");
    CHECK(dataset->Damages().empty());  // the mapped file is as it was
    CHECK(*dataset->Neighbour(3) == 3);
  }
  SECTION("graph.json replaced") {
    REQUIRE(folder.Seal().ok());
    const FileNews news = dataset->CheckFiles();
    REQUIRE(news.replaced.size() == 1);
    CHECK(news.replaced[0].name == "graph.json");
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(_GLIBCXX_TSAN)
TEST_CASE("a read of bytes that are gone is known as damage of its file", "[graph_dataset]") {
  InstallSigbusGuard();
  GraphFolder folder(1, 4096);
  folder.Add<std::int32_t>("indptr", DType::kInt32, {0, 4096});
  folder.Add<std::int32_t>("indices", DType::kInt32, std::vector<std::int32_t>(4096));
  REQUIRE(folder.Seal().ok());
  const auto dataset = OpenOrFail(folder.dir.path());
  fs::resize_file(folder.dir / "indices.npy", 4096);
  CHECK(*dataset->Neighbour(4000) == 0);
  const auto damages = dataset->Damages();
  REQUIRE(damages.size() == 1);
  CHECK(damages[0].name == "indices.npy (array indices)");
  CHECK_THAT(damages[0].what, Contains("cannot be read any more"));
}
#endif

}  // namespace
}  // namespace millrace
