#include <catch2/catch.hpp>

#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "server/state/sqlite_store.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

v1::JobRecord Record(const std::string& name) {
  v1::JobRecord record;
  record.set_name(name);
  return record;
}

TEST_CASE("what was committed is there after a restart", "[sqlite]") {
  test::TemporaryFolder folder;
  {
    auto store = SqliteStore::Open(folder.path());
    REQUIRE(store.ok());
    REQUIRE((*store)->CommitTerm(5).ok());
    REQUIRE((*store)->CommitJob(5, Record("a"), 0).ok());
  }
  auto again = SqliteStore::Open(folder.path());
  REQUIRE(again.ok());
  CHECK((*again)->Load()->term == 5);
  CHECK((*again)->Load()->jobs.size() == 1);
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
    const Status status = (*store)->CommitJob(5, Record("a"), 0);
    CHECK(status.code() == StatusCode::kUnavailable);
    CHECK(status.message().find(file.string() + ": was deleted or replaced") != std::string::npos);
  }
  fs::rename(aside, file);
  CHECK((*store)->CommitJob(5, Record("a"), 0).ok());
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

TEST_CASE("a file of a newer program is refused with both versions", "[sqlite]") {
  test::TemporaryFolder folder;
  REQUIRE(SqliteStore::Open(folder.path()).ok());
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open((folder.path() / "state.db").c_str(), &db) == SQLITE_OK);
  REQUIRE(sqlite3_exec(db, "PRAGMA user_version=2", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
  const Status status = SqliteStore::Open(folder.path()).status();
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(status.message().find("version 2") != std::string::npos);
  CHECK(status.message().find("knows 1") != std::string::npos);
}

TEST_CASE("a log cut at any byte leaves a prefix of the commits", "[sqlite]") {
  // The files as a crash leaves them: copied while the store is open, so that nothing is folded in.
  test::TemporaryFolder folder;
  test::TemporaryFolder crashed;
  std::vector<char> log;
  {
    auto store = SqliteStore::Open(folder.path());
    REQUIRE(store.ok());
    for (std::uint64_t term = 1; term <= 5; ++term) {
      REQUIRE((*store)->CommitTerm(term).ok());
      REQUIRE((*store)->CommitJob(term, Record("job" + std::to_string(term)), 0).ok());
    }
    fs::copy_file(folder.path() / "state.db", crashed.path() / "state.db.whole");
    std::ifstream in(folder.path() / "state.db-wal", std::ios::binary);
    log.assign(std::istreambuf_iterator<char>(in), {});
  }
  REQUIRE(log.size() > 10'000);
  std::uint64_t last_term = 0;
  std::size_t distinct = 0;
  for (std::size_t cut = 0; cut <= log.size(); cut += cut + 997 < log.size() ? 997 : 1) {
    fs::copy_file(crashed.path() / "state.db.whole", crashed.path() / "state.db",
                  fs::copy_options::overwrite_existing);
    std::ofstream(crashed.path() / "state.db-wal", std::ios::binary)
        .write(log.data(), static_cast<long>(cut));
    auto store = SqliteStore::Open(crashed.path());
    REQUIRE(store.ok());
    const auto state = (*store)->Load();
    REQUIRE(state.ok());
    CHECK(state->term >= last_term);
    CHECK((state->jobs.size() == state->term || state->jobs.size() + 1 == state->term));
    distinct += state->term != last_term;
    last_term = state->term;
    if (cut == log.size()) break;
    if (log.size() - cut <= 997) cut = log.size() - 1;
  }
  CHECK(last_term == 5);
  CHECK(distinct >= 4);
}

}  // namespace
}  // namespace millrace
