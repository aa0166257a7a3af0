#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "server/state/sqlite/sqlite_store.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

v1::JobRecord NamedRecord(const std::string& name) {
  v1::JobRecord record;
  record.set_name(name);
  return record;
}

TEST_CASE("a folder that another daemon holds is refused, naming it", "[sqlite]") {
  test::TemporaryFolder folder;
  auto first = SqliteStore::Open(folder.path());
  REQUIRE(first.ok());
  const Status second = SqliteStore::Open(folder.path()).status();
  CHECK(second.code() == StatusCode::kFailedPrecondition);
  CHECK(second.message().find("in use by process " + std::to_string(getpid())) !=
        std::string::npos);
  CHECK(second.message().find(folder.path().string()) != std::string::npos);
}

TEST_CASE("state is its user's alone, also in files that were there", "[sqlite][security]") {
  test::TemporaryFolder folder;
  const auto perms = [&](const char* name) {
    return fs::status(folder.path() / name).permissions() & fs::perms::all;
  };
  constexpr auto kOwn = fs::perms::owner_read | fs::perms::owner_write;
  {
    auto store = SqliteStore::Open(folder.path());
    REQUIRE(store.ok());
  }
  fs::permissions(folder.path() / "state.db", kOwn | fs::perms::group_read | fs::perms::others_read);
  auto store = SqliteStore::Open(folder.path());
  REQUIRE(store.ok());
  for (const char* name : {"state.db", "state.db-wal", "state.db-shm", "lock"}) {
    CHECK(perms(name) == kOwn);
  }
}

TEST_CASE("a state file that was deleted or replaced is noticed before anything is written",
          "[sqlite]") {
  test::TemporaryFolder folder;
  auto store = SqliteStore::Open(folder.path());
  REQUIRE(store.ok());
  REQUIRE((*store)->CommitTerm(5).ok());
  const fs::path file = folder.path() / "state.db";
  const fs::path aside = folder.path() / "aside";
  fs::rename(file, aside);
  for (const bool another : {false, true}) {
    if (another) std::ofstream(file) << "another";
    const Status status = (*store)->CommitJob(5, NamedRecord("a"), 0);
    CHECK(status.code() == StatusCode::kUnavailable);
    CHECK(status.message().find(file.string() + ": was deleted or replaced") != std::string::npos);
  }
  fs::rename(aside, file);
  CHECK((*store)->CommitJob(5, NamedRecord("a"), 0).ok());
}

TEST_CASE("the folder is made where it is missing, and a file in its place is refused",
          "[sqlite]") {
  test::TemporaryFolder folder;
  CHECK(SqliteStore::Open(folder.path() / "a" / "b").ok());
  std::ofstream(folder.path() / "file") << "x";
  const Status status = SqliteStore::Open(folder.path() / "file").status();
  CHECK(status.code() == StatusCode::kPermissionDenied);
}

TEST_CASE("a file that is no database is named and not touched", "[sqlite]") {
  test::TemporaryFolder folder;
  const std::string junk(5000, 'j');
  std::ofstream(folder.path() / "state.db") << junk;
  const Status status = SqliteStore::Open(folder.path()).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message().find("state.db") != std::string::npos);
  CHECK(fs::file_size(folder.path() / "state.db") == junk.size());
}

TEST_CASE("a database whose format no SQLite knows is damaged, and says what to do", "[sqlite]") {
  test::TemporaryFolder folder;
  REQUIRE(SqliteStore::Open(folder.path()).ok());
  std::fstream file(folder.path() / "state.db", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(44);  // the schema format number, four bytes: https://sqlite.org/fileformat.html
  file.write("\0\0\0\x7f", 4);
  file.close();
  const Status status = SqliteStore::Open(folder.path()).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Catch::Contains("state.db") && Catch::Contains("move it away"));
}

/// A store's files as a crash leaves them. They are copied while the store is open, so that the log
/// is not yet folded in.
struct Crashed {
  test::TemporaryFolder folder;
  std::string log;
  std::vector<std::size_t> ends;  // size of the log after each commit

  static constexpr std::uint64_t kCommits = 5;  // term 1, job 1, term 2, job 2, term 3

  Crashed() {
    test::TemporaryFolder live;
    auto store = SqliteStore::Open(live.path());
    REQUIRE(store.ok());
    const fs::path wal = live.path() / "state.db-wal";
    ends.push_back(fs::file_size(wal));
    for (std::uint64_t term = 1; term <= 3; ++term) {
      REQUIRE((*store)->CommitTerm(term).ok());
      ends.push_back(fs::file_size(wal));
      if (ends.size() > kCommits) break;
      REQUIRE((*store)->CommitJob(term, NamedRecord("job" + std::to_string(term)), 0).ok());
      ends.push_back(fs::file_size(wal));
    }
    fs::copy_file(live.path() / "state.db", folder.path() / "whole");
    std::ifstream in(wal, std::ios::binary);
    log.assign(std::istreambuf_iterator<char>(in), {});
    REQUIRE(log.size() == ends.back());
  }

  /// The number of commits that a store finds if its log is `wal`.
  std::uint64_t Recover(std::string_view wal) const {
    fs::copy_file(folder.path() / "whole", folder.path() / "state.db",
                  fs::copy_options::overwrite_existing);
    std::ofstream(folder.path() / "state.db-wal", std::ios::binary) << wal;
    auto store = SqliteStore::Open(folder.path());
    REQUIRE(store.ok());
    const auto state = (*store)->Load();
    REQUIRE(state.ok());
    REQUIRE((state->jobs.size() == state->term || state->jobs.size() + 1 == state->term));
    return state->term + state->jobs.size();
  }
};

TEST_CASE("a log cut at any byte has the commits that end before the cut, and no other",
          "[sqlite]") {
  const Crashed crashed;
  // Cuts at every byte of the last commit; elsewhere only at bytes where something begins or ends.
  for (std::size_t cut = crashed.ends.front(); cut <= crashed.log.size(); ++cut) {
    const bool last = cut + 1 >= crashed.ends.at(Crashed::kCommits - 1);
    if (!last && (cut - 32) % (4096 + 24) > 25 && cut % 311 != 0) continue;
    std::uint64_t whole = 0;
    while (whole < Crashed::kCommits && crashed.ends.at(whole + 1) <= cut) ++whole;
    INFO("cut at " << cut << " of " << crashed.log.size());
    REQUIRE(crashed.Recover(std::string_view(crashed.log).substr(0, cut)) == whole);
  }
}

TEST_CASE("a log with bytes of its tail overwritten has the commits before them", "[sqlite]") {
  const Crashed crashed;
  for (std::uint64_t commit = 0; commit < Crashed::kCommits; ++commit) {
    const std::size_t begin = crashed.ends.at(commit);
    const std::size_t end = crashed.ends.at(commit + 1);
    for (std::size_t at = begin; at < end; at += 613) {
      std::string torn = crashed.log;
      torn[at] = static_cast<char>(torn[at] ^ 0x40);
      INFO("byte " << at << " of commit " << commit);
      REQUIRE(crashed.Recover(torn) == commit);
    }
  }
}

}  // namespace
}  // namespace millrace
