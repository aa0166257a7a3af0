#include "server/files/index_place.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/hash.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/recording_logger.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::TempDir;

constexpr std::string_view kMagic = "MAGIC";

TEST_CASE("an index lies in its folder, else in the cache under the digest of the real path",
          "[index_place]") {
  const TempDir dir;
  const TempDir cache;
  fs::create_directory(dir / "data");
  fs::create_directory_symlink(dir / "data", dir / "link");
  const std::string digest = Xxh3((dir / "data").string()).ToHex();
  CHECK(IndexPlaces(dir / "link", {}, cache.path()) ==
        std::vector<fs::path>{dir / "link/.millrace.index", cache / digest / "index"});
  CHECK(IndexPlaces(dir / "gone", {}, cache.path()).size() == 1);
  CHECK(IndexPlaces(dir / "data", "/x/y", cache.path()) == std::vector<fs::path>{"/x/y"});
}

TEST_CASE("columns lie beside the index, wherever that is", "[index_place]") {
  const TempDir dir;
  const TempDir cache;
  const std::string digest = Xxh3(dir.path().string()).ToHex();
  CHECK(ColumnFolders(dir.path(), {}, cache.path()) ==
        std::vector<fs::path>{dir / ".millrace.columns", cache / digest / "columns"});
  CHECK(ColumnFolders(dir / "gone", {}, cache.path()).size() == 1);
  CHECK(ColumnFolders(dir.path(), "/x/y", cache.path()) == std::vector<fs::path>{"/x/y.columns"});
}

TEST_CASE("only an index, or an empty file, is overwritten by an index", "[index_place]") {
  const TempDir dir;
  CHECK(CheckReplaceableIndex(dir / "none", kMagic).ok());
  std::ofstream(dir / "empty") << "";
  CHECK(CheckReplaceableIndex(dir / "empty", kMagic).ok());
  std::ofstream(dir / "index") << "MAGIC and more";
  CHECK(CheckReplaceableIndex(dir / "index", kMagic).ok());
  fs::create_directory(dir / "folder");
  std::ofstream(dir / "other") << "MAGIK";
  std::ofstream(dir / "short") << "MAG";
  for (const char* name : {"folder", "other", "short"}) {
    CHECK(CheckReplaceableIndex(dir / name, kMagic) ==
          InvalidArgument((dir / name).string() +
                          ": is no index, and is not overwritten; remove it or name another file"));
  }
}

TEST_CASE("the lock of an index is held by one, and a wait for it can be stopped",
          "[index_place]") {
  const TempDir dir;
  const std::vector<fs::path> places = {dir / "index"};
  test::RecordingLogger logger;
  const auto held = LockIndexPlace(dir.path(), places, {}, logger);
  REQUIRE(held.ok());
  CHECK(held->place == dir / "index");
  CHECK(fs::exists(dir / "index.lock"));
  std::stop_source stop;
  Status second = OkStatus();
  std::thread waits(
      [&] { second = LockIndexPlace(dir.path(), places, stop.get_token(), logger).status(); });
  logger.WaitFor("index=" + (dir / "index").string());
  stop.request_stop();
  waits.join();
  CHECK(second.code() == StatusCode::kCancelled);
  CHECK_THAT(second.message(), Contains("dataset " + dir.path().string()));
}

TEST_CASE("the lock of an index is free again once its holder lets go", "[index_place]") {
  const TempDir dir;
  const std::vector<fs::path> places = {dir / "index"};
  test::RecordingLogger logger;
  CHECK(LockIndexPlace(dir.path(), places, {}, logger).ok());
  CHECK(LockIndexPlace(dir.path(), places, {}, logger).ok());
  CHECK_FALSE(logger.Has("waiting"));
}

TEST_CASE("the folder of an index in the cache is made, the folder of a dataset is not",
          "[index_place]") {
  const TempDir dir;
  test::RecordingLogger logger;
  const std::vector<fs::path> places = {dir / "gone/index", dir / "cache/a/b/index"};
  CHECK(LockIndexPlace(dir.path(), places, {}, logger).status().code() == StatusCode::kNotFound);
  CHECK_FALSE(fs::exists(dir / "gone"));
}

TEST_CASE("an index without any place says that another one can be named", "[index_place]") {
  const TempDir dir;
  test::RecordingLogger logger;
  CHECK_THAT(LockIndexPlace(dir.path(), {}, {}, logger).status().message(),
             Contains("; name another place for the index"));
}

}  // namespace
}  // namespace millrace
