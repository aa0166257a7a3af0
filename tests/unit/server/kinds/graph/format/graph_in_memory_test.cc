#include <catch2/catch.hpp>

#include <cstring>
#include <filesystem>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "server/kinds/graph/format/verified_files.h"
#include "server/kinds/graph/format/verify.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::SmallGraphFolder;

TEST_CASE("a dataset in memory has the values of its files", "[graph_in_memory]") {
  const test::TempDir elsewhere;
  SmallGraphFolder folder;
  test::WriteText(elsewhere / "raw", "__abcdefgh");
  GraphSealer sealer(folder.dir.path(), folder.description);
  // Two arrays of one file.
  for (const auto& [name, offset] :
       {std::pair("node_feature/a", 2), std::pair("node_feature/e", 6)}) {
    REQUIRE(sealer
                .Add(name, {.path = elsewhere / "raw",
                            .type = ArrayType{DType::kUint8, {4}},
                            .offset = static_cast<std::uint64_t>(offset)})
                .ok());
  }
  REQUIRE(sealer.Seal().ok());
  const auto mapped = *folder.Open();
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  const auto opened = GraphDataset::OpenInMemory(
      folder.dir.path(), {.threads = 2, .progress = [&](const IndexProgress& progress) {
                            done = progress.bytes_done;
                            total = progress.bytes_total;
                          }});
  INFO(opened.status().message());
  REQUIRE(opened.ok());
  const GraphDataset& dataset = **opened;
  CHECK(done == total);
  CHECK(total == GraphBytes(*mapped));
  CHECK(dataset.in_memory_bytes() >= total);
  CHECK(mapped->in_memory_bytes() == 0);
  CHECK(dataset.huge_page_bytes() <= dataset.in_memory_bytes());
  CHECK(dataset.digest() == mapped->digest());
  CHECK(dataset.file_count() == mapped->file_count());
  CHECK(dataset.unverified() == 0);
  for (const auto& entry : dataset.description().arrays) {
    CAPTURE(entry.first);
    const GraphArray& copy = *dataset.Find(entry.first);
    const GraphArray& file = *mapped->Find(entry.first);
    CHECK(copy.data != file.data);
    CHECK(std::memcmp(copy.data, file.data, *file.type.Bytes()) == 0);
  }
  CHECK(dataset.Find("node_feature/e")->NumberAt(0) == 'e');
  CHECK(*dataset.Neighbour(3) == 3);
}

TEST_CASE("what happens to the files of a dataset in memory does not matter", "[graph_in_memory]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto dataset = *GraphDataset::OpenInMemory(folder.dir.path(), {});
  test::OverwriteValue<std::int32_t>(folder.dir / "indices.npy", 0, 77);
  std::filesystem::resize_file(folder.dir / "node_feature/x.npy", 1);
  std::filesystem::remove(folder.dir / "indptr.npy");
  const FileNews news = dataset->CheckFiles();
  CHECK(news.damaged.empty());
  CHECK(news.replaced.empty());
  CHECK(dataset->Damages().empty());
  CHECK(*dataset->Neighbour(0) == 1);
  CHECK(dataset->Row(0)->size() == 3);
}

TEST_CASE("a dataset whose files differ is not copied, with the error of verify",
          "[graph_in_memory]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  test::OverwriteValue<float>(folder.dir / "node_feature/x.npy", 3, 0.5f);
  const Status verified = VerifyGraph(**folder.Open(), {});
  REQUIRE(verified.code() == StatusCode::kDataLoss);
  // Files that were found right before are compared all the same.
  VerifiedFiles remembered(std::vector<std::filesystem::path>{});
  const auto opened = *folder.Open();
  for (const WatchedFile& file : opened->files().files()) {
    remembered.Add(file.digest, file.file.identity(),
                   file.file.identity().modified_ns + (1LL << 40));
  }
  const Status copied =
      GraphDataset::OpenInMemory(folder.dir.path(), {.verified = &remembered}).status();
  CHECK(copied.code() == verified.code());
  CHECK(copied.message() == verified.message());
  CHECK_THAT(copied.message(), Contains("node_feature/x.npy (array node_feature/x): has digest"));
}

TEST_CASE("a dataset that memory has no room for is refused before anything is copied",
          "[graph_in_memory]") {
  const test::TempDir elsewhere;
  SmallGraphFolder folder;
#ifdef __SANITIZE_THREAD__
  WARN("skipped: the thread sanitizer leaves no room for a mapping of 4 TiB");
  return;
#endif
  // A file of holes: it takes no room on the disk.
  const std::uint64_t bytes = std::uint64_t{1} << 42;
  test::WriteText(elsewhere / "huge", "x");
  std::error_code error;
  std::filesystem::resize_file(elsewhere / "huge", bytes, error);
  if (error) {
    WARN("skipped: the file system has no file of 4 TiB");
    return;
  }
  folder.description.arrays["node_feature/huge"] = {
      .path = elsewhere / "huge", .type = {DType::kUint8, {4, bytes / 4}}, .bytes = bytes};
  REQUIRE(folder.Seal().ok());
  const Status status =
      GraphDataset::OpenInMemory(folder.dir.path(),
                                 {.progress = [](const IndexProgress&) { FAIL("copied"); }})
          .status();
  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK_THAT(status.message(),
             Contains("dataset " + folder.dir.path().string() +
                      ": cannot be copied into memory (in_memory): it needs 43980") &&
                 Contains(" bytes, and the ") && Contains(" has only ") && Contains(" left"));
}

TEST_CASE("copying a dataset into memory can be stopped", "[graph_in_memory]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  std::stop_source stop;
  stop.request_stop();
  CHECK(GraphDataset::OpenInMemory(folder.dir.path(), {.stop = stop.get_token()}).status().code() ==
        StatusCode::kCancelled);
}

}  // namespace
}  // namespace millrace
