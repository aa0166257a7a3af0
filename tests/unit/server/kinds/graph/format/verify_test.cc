#include "server/kinds/graph/format/verify.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/skip.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

/// Files that were written long ago.
void MakeOld(const fs::path& dir) {
  for (const auto& file : fs::recursive_directory_iterator(dir)) {
    if (!file.is_regular_file()) continue;
    fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(1));
  }
}

TEST_CASE("the golden graphs' files have the digests of graph.json", "[verify_graph]") {
  const fs::path graphs = fs::path(test::SharedDirOrSkip()) / "golden-graphs/graphs";
  for (const std::string name : {"labels", "power", "tiny"}) {
    const auto dataset = GraphDataset::Open(graphs / name);
    REQUIRE(dataset.ok());
    const Status status = VerifyGraph(**dataset, {});
    INFO(status.message());
    CHECK(status.ok());
  }
}

TEST_CASE("a changed byte is found, with file and array", "[verify_graph]") {
  const test::SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto dataset = *folder.Open();
  CHECK(VerifyGraph(*dataset, {}).ok());
  test::OverwriteValue<float>(folder.dir / "node_feature/x.npy", 3, 0.5f);
  std::vector<BadFile> bad;
  const Status status = VerifyGraph(*dataset, {}, &bad);
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Contains("node_feature/x.npy (array node_feature/x): has digest"));
  CHECK(bad.size() == 1);
  fs::remove(folder.dir / "indices.npy");
  CHECK_THAT(VerifyGraph(*dataset, {}).message(),
             Contains("2 bad files") && Contains("indices.npy (array indices): "));
}

TEST_CASE("verifying counts every byte, and ends when it is asked to", "[verify_graph]") {
  const test::SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto dataset = *folder.Open();
  std::uint64_t bytes = 0;
  VerifyGraphOptions options;
  options.progress = [&](std::uint64_t more) { bytes += more; };
  CHECK(VerifyGraph(*dataset, options).ok());
  CHECK(bytes == GraphBytes(*dataset));
  std::stop_source stop;
  stop.request_stop();
  options.stop = stop.get_token();
  CHECK(VerifyGraph(*dataset, options).code() == StatusCode::kCancelled);
}

TEST_CASE("a file that changes while it is verified is not right", "[verify_graph]") {
  const test::SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  MakeOld(folder.dir.path());
  const auto dataset = *folder.Open();
  VerifyGraphOptions options;
  options.threads = 1;
  options.progress = [&](std::uint64_t) {
    fs::last_write_time(folder.dir / "indices.npy", fs::file_time_type::clock::now());
  };
  CHECK_THAT(VerifyGraph(*dataset, options).message(),
             Contains("indices.npy (array indices): was changed while it was verified"));
}

TEST_CASE("a file with another size than it had is not hashed", "[verify_graph]") {
  const test::SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto dataset = *folder.Open();
  fs::resize_file(folder.dir / "indices.npy", 149);
  CHECK_THAT(VerifyGraph(*dataset, {}).message(),
             Contains("indices.npy (array indices): has 149 bytes, expected 148"));
}

TEST_CASE("a memory in which nothing was noted is not written", "[verify_graph]") {
  const test::TempDir dir;
  VerifiedFiles verified({dir / "verified"});
  CHECK(verified.Save().ok());
  CHECK_FALSE(fs::exists(dir / "verified"));
  const FileIdentity file{.size = 1, .inode = 2, .modified_ns = 0};
  verified.Add({1, 2}, file, 1'000'000'000'000);
  CHECK(verified.Save().ok());
  fs::remove(dir / "verified");
  verified.Add({1, 2}, file, 1'000'000'000'000);  // it is known
  CHECK(verified.Save().ok());
  CHECK_FALSE(fs::exists(dir / "verified"));
}

TEST_CASE("files that were verified are remembered by size, time and inode", "[verify_graph]") {
  const test::SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  MakeOld(folder.dir.path());
  const auto dataset = *folder.Open();
  const test::TempDir memory;
  const std::vector<fs::path> places = {"/proc/none/verified", memory / "new/verified"};
  {
    VerifiedFiles verified(places);
    VerifyGraphOptions options;
    options.verified = &verified;
    REQUIRE(VerifyGraph(*dataset, options).ok());
    REQUIRE(verified.Save().ok());
  }
  // A byte changes, but size, time and inode do not: nothing is hashed, so nothing is found.
  const fs::path file = folder.dir / "indices.npy";
  const auto time = fs::last_write_time(file);
  test::OverwriteValue<std::int32_t>(file, 0, 3);
  fs::last_write_time(file, time);
  VerifiedFiles verified(places);
  VerifyGraphOptions options;
  options.verified = &verified;
  options.trust_verified = true;
  CHECK(VerifyGraph(*dataset, options).ok());
  SECTION("but another time makes it hashed again") {
    fs::last_write_time(file, time + std::chrono::seconds(1));
    CHECK_THAT(VerifyGraph(*dataset, options).message(), Contains("indices.npy"));
  }
  SECTION("but not if the memory is that of another host, or no memory") {
    const std::string text = test::ReadText(places[1]);
    test::WriteText(places[1], "millrace_verified 1 0123" + text.substr(24));
    VerifiedFiles other(places);
    options.verified = &other;
    CHECK_FALSE(VerifyGraph(*dataset, options).ok());
    test::WriteText(places[1], text.substr(0, text.size() / 2) + "x\n");
    VerifiedFiles broken(places);
    options.verified = &broken;
    CHECK_FALSE(VerifyGraph(*dataset, options).ok());
  }
  SECTION("but not without trust") {
    options.trust_verified = false;
    CHECK_FALSE(VerifyGraph(*dataset, options).ok());
  }
}

TEST_CASE("whatever lies in place of the memory of files is no memory", "[verify_graph]") {
  const test::TempDir dir;
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  test::WriteText(dir / "large", "millrace_verified 1 ");
  fs::resize_file(dir / "large", std::uint64_t{1} << 30);  // one line that takes no room
  fs::create_directory(dir / "folder");
  fs::create_symlink(dir / "link", dir / "link");
  const auto most_kilobytes = [] {
    rusage usage{};
    REQUIRE(::getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
  };
  const auto before = most_kilobytes();
  for (const char* name : {"pipe", "large", "folder", "link"}) {
    INFO(name);
    VerifiedFiles verified({dir / name, dir / "next"});
    CHECK_FALSE(verified.Has({1, 2}, {}));
  }
  CHECK(most_kilobytes() - before < 100'000);
}

TEST_CASE("a file that was written just now is not remembered", "[verify_graph]") {
  VerifiedFiles verified({});
  const FileIdentity file{.size = 1, .inode = 2, .modified_ns = 1'000'000'000'000};
  verified.Add({1, 2}, file, file.modified_ns + 3'000'000'000);
  CHECK_FALSE(verified.Has({1, 2}, file));
  verified.Add({1, 2}, file, file.modified_ns + 4'000'000'000);
  CHECK(verified.Has({1, 2}, file));
  CHECK_FALSE(verified.Has({1, 3}, file));
}

}  // namespace
}  // namespace millrace
