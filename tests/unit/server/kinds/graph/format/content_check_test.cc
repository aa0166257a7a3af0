// Contents of a graph dataset are compared with their digests while it is in use.
#include "server/kinds/graph/format/content_check.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "server/files/sigbus_guard.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

using Catch::Contains;

/// A dataset that was written long ago, and a place where files are remembered.
struct CheckedFolder {
  CheckedFolder() {
    REQUIRE(folder.Seal().ok());
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder.dir.path())) {
      if (!file.is_regular_file()) continue;
      std::filesystem::last_write_time(
          file, std::filesystem::last_write_time(file) - std::chrono::hours(1));
    }
  }
  std::shared_ptr<const GraphDataset> Open(std::uint64_t bytes_at_once = 1000) const {
    auto dataset = GraphDataset::Open(folder.dir.path(), {.verify_contents = true,
                                                          .remembered_at = {memory / "verified"},
                                                          .bytes_at_once = bytes_at_once});
    REQUIRE(dataset.ok());
    return *dataset;
  }

  test::SmallGraphFolder folder;
  test::TempDir memory;
};

TEST_CASE("contents are compared a part at a time, until all of them were", "[content_check]") {
  const CheckedFolder checked;
  const auto dataset = checked.Open(100);
  double left = dataset->unverified();
  CHECK(left == 1);
  int looks = 0;
  for (; left > 0; ++looks) {
    REQUIRE(looks < 1000);
    const FileNews news = dataset->CheckFiles();
    CHECK(news.damaged.empty());
    CHECK(dataset->unverified() < left);
    left = dataset->unverified();
    CHECK(news.verified == (left == 0));
  }
  CHECK(looks > 5);
  CHECK_FALSE(dataset->CheckFiles().verified);
}

TEST_CASE("a dataset that was opened for a look is not compared", "[content_check]") {
  const CheckedFolder checked;
  const auto dataset = *GraphDataset::Open(checked.folder.dir.path());
  CHECK(dataset->unverified() == 0);
  CHECK_FALSE(dataset->CheckFiles().verified);
}

TEST_CASE("a file with other contents than graph.json says is damaged from then on",
          "[content_check]") {
  const CheckedFolder checked;
  test::OverwriteValue<float>(checked.folder.dir / "node_feature/x.npy", 3, 0.5F);
  const auto dataset = checked.Open(1 << 20);
  CHECK(dataset->Damages().empty());
  const FileNews news = dataset->CheckFiles();
  REQUIRE(news.damaged.size() == 1);
  CHECK_THAT(news.damaged[0].name, Contains("node_feature/x.npy (array node_feature/x)"));
  CHECK_THAT(news.damaged[0].what, Contains("its contents have digest"));
  CHECK(dataset->Damages().size() == 1);
  CHECK(dataset->unverified() == 0);
  CHECK(dataset->CheckFiles().damaged.empty());  // told once
}

TEST_CASE("files that were compared once are not compared by the next process", "[content_check]") {
  const CheckedFolder checked;
  const auto first = checked.Open(1 << 20);
  CHECK(first->CheckFiles().verified);
  CHECK(checked.Open()->unverified() == 0);
  SECTION("unless they were modified") {
    const auto file = checked.folder.dir / "indices.npy";
    std::filesystem::last_write_time(
        file, std::filesystem::last_write_time(file) + std::chrono::seconds(1));
    const auto again = checked.Open(1 << 20);
    CHECK(again->unverified() > 0);
    CHECK(again->CheckFiles().verified);
  }
}

TEST_CASE("a file that was touched before it was compared is not remembered", "[content_check]") {
  const CheckedFolder checked;
  const auto dataset = checked.Open(1 << 20);
  const auto file = checked.folder.dir / "indices.npy";
  const auto time = std::filesystem::last_write_time(file);
  std::filesystem::last_write_time(file, time + std::chrono::seconds(1));
  CHECK(dataset->CheckFiles().damaged.empty());
  CHECK(dataset->unverified() == 0);
  std::filesystem::last_write_time(file, time);
  const double left = checked.Open()->unverified();
  CHECK(left > 0);
  CHECK(left < 0.5);  // the others are remembered
}

TEST_CASE("a file that is known to be damaged is not hashed to its end", "[content_check]") {
  InstallSigbusGuard();
  const CheckedFolder checked;
  const auto dataset = checked.Open(1 << 20);
  std::filesystem::resize_file(checked.folder.dir / "node_feature/x.npy", 10);
  const FileNews news = dataset->CheckFiles();
  REQUIRE(news.damaged.size() == 1);
  CHECK_THAT(news.damaged[0].what, !Contains("digest"));
  CHECK(dataset->unverified() == 0);
}

TEST_CASE("a file that is damaged while it is compared leaves nothing to compare",
          "[content_check]") {
  InstallSigbusGuard();
  test::GraphFolder folder(4, 0);
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0, 0, 0, 0, 0});
  folder.Add<std::int32_t>("indices", DType::kInt32, {});
  folder.Add<double>("node_feature/x", DType::kFloat64, std::vector<double>(4000, 1), {4, 1000});
  folder.Add<std::int32_t>("roots/last", DType::kInt32, {0});
  REQUIRE(folder.Seal().ok());
  const auto dataset = *GraphDataset::Open(
      folder.dir.path(), {.verify_contents = true, .remembered_at = {}, .bytes_at_once = 4096});
  // The feature is nearly all that there is, so half of it is compared by now.
  while (dataset->unverified() > 0.5) dataset->CheckFiles();
  REQUIRE(dataset->Damages().empty());
  std::filesystem::resize_file(folder.dir / "node_feature/x.npy", 1000);
  for (double left = dataset->unverified(); left > 0; left = dataset->unverified()) {
    dataset->CheckFiles();
    REQUIRE(dataset->unverified() < left);
  }
  CHECK(dataset->Damages().size() == 1);
}

TEST_CASE("comparing contents ends when it is asked to", "[content_check]") {
  const CheckedFolder checked;
  const auto dataset = checked.Open(1 << 20);
  std::stop_source stop;
  stop.request_stop();
  dataset->CheckFiles(stop.get_token());
  CHECK(dataset->unverified() == 1);
}

}  // namespace
}  // namespace millrace
