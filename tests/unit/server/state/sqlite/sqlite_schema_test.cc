// State files of earlier and later versions.
#include <catch2/catch.hpp>

#include <sqlite3.h>

#include <filesystem>
#include <string>

#include "server/state/sqlite/sqlite_schema.h"
#include "server/state/sqlite/sqlite_store.h"
#include "tests/unit/server/state/job_record.h"
#include "tests/unit/server/state/sqlite/faulty_vfs.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::test {
namespace {

/// A file as a program of version 1 wrote it. It is a record of the past and must never be changed.
constexpr const char* kVersion1 = R"(
PRAGMA journal_mode=WAL;
CREATE TABLE leader (id INTEGER PRIMARY KEY CHECK (id = 1), term INTEGER NOT NULL);
INSERT INTO leader VALUES (1, 0);
CREATE TABLE jobs (
  name TEXT PRIMARY KEY,
  ended INTEGER NOT NULL,
  ended_unix_seconds INTEGER NOT NULL,
  record BLOB NOT NULL  -- millrace.v1.JobRecord
);
PRAGMA user_version=1;
UPDATE leader SET term = 1234;
INSERT INTO jobs VALUES ('first', 1, 1799999999, x'0a056669727374280138ffa3a7da06');
INSERT INTO jobs VALUES ('second', 0, 0, x'0a067365636f6e641804');
)";

void Execute(const std::filesystem::path& file, const char* sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &db) == SQLITE_OK);
  REQUIRE(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  REQUIRE(sqlite3_close(db) == SQLITE_OK);
}

std::int64_t Number(const std::filesystem::path& file, const char* sql) {
  SqliteDatabase db(file);
  REQUIRE(db.Open(SqliteDatabase::Mode::kReadOnly).ok());
  const auto number = db.Number(sql);
  REQUIRE(number.ok());
  return *number;
}

TEST_CASE("a state file of version 1 is brought up to date with all that it holds", "[sqlite]") {
  TemporaryFolder folder;
  const auto file = folder.path() / "state.db";
  Execute(file, kVersion1);
  {
    auto store = SqliteStore::Open(folder.path());
    INFO(store.status().ToString());
    REQUIRE(store.ok());
    const auto state = (*store)->Load();
    REQUIRE(state.ok());
    CHECK(state->term == 1234);
    REQUIRE(state->jobs.size() == 2);
    CHECK(state->jobs[0].name() == "first");
    CHECK(state->jobs[0].ended());
    CHECK(state->jobs[1].name() == "second");
    CHECK(state->jobs[1].world_size() == 4);
    REQUIRE((*store)->CommitTerm(1235).ok());
    REQUIRE((*store)->CommitJob(1235, Record("third"), kNow + 8 * 86400).ok());
    CHECK((*store)->Load()->jobs.size() == 2);  // `first` is too old by now
  }
  CHECK(Number(file, "PRAGMA user_version") == kStateFileVersion);
  CHECK(Number(file, "PRAGMA application_id") == kStateFileApplication);
  CHECK(SqliteStore::Open(folder.path()).ok());
}

TEST_CASE("a file that was brought up to date is the same as a new one", "[sqlite]") {
  const auto tables = [](const std::filesystem::path& file) {
    SqliteDatabase db(file);
    REQUIRE(db.Open(SqliteDatabase::Mode::kReadOnly).ok());
    const auto select =
        db.Prepare("SELECT name || coalesce(sql, '') FROM sqlite_schema ORDER BY 1");
    REQUIRE(select.ok());
    std::string all;
    while (sqlite3_step(select->get()) == SQLITE_ROW) {
      all += reinterpret_cast<const char*>(sqlite3_column_text(select->get(), 0));
    }
    return all;
  };
  TemporaryFolder old;
  Execute(old.path() / "state.db", kVersion1);
  REQUIRE(SqliteStore::Open(old.path()).ok());
  TemporaryFolder fresh;
  REQUIRE(SqliteStore::Open(fresh.path()).ok());
  CHECK(tables(old.path() / "state.db") == tables(fresh.path() / "state.db"));
  CHECK_FALSE(tables(fresh.path() / "state.db").empty());
}

TEST_CASE("a step to a new version that fails leaves the old one whole", "[sqlite]") {
  TemporaryFolder original;
  Execute(original.path() / "state.db", kVersion1);
  int refused = 0;
  for (int after = 0;; ++after) {
    TemporaryFolder folder;
    std::filesystem::copy_file(original.path() / "state.db", folder.path() / "state.db");
    {
      FaultyVfs vfs;
      vfs.Fail(FaultyVfs::Call::kWrite, after, SQLITE_FULL, true);
      const auto store = SqliteStore::Open(folder.path());
      if (vfs.failed() == 0) break;
      refused += store.ok() ? 0 : 1;
    }
    const std::int64_t version = Number(folder.path() / "state.db", "PRAGMA user_version");
    const std::int64_t indexes = Number(folder.path() / "state.db",
                                        "SELECT count(*) FROM sqlite_schema WHERE name = "
                                        "'jobs_by_end'");
    CHECK(((version == 1 && indexes == 0) || (version == 2 && indexes == 1)));
    auto store = SqliteStore::Open(folder.path());
    REQUIRE(store.ok());
    CHECK((*store)->Load()->term == 1234);
    CHECK((*store)->Load()->jobs.size() == 2);
  }
  CHECK(refused >= 2);
}

TEST_CASE("a file of a newer program is refused with both versions, and not touched", "[sqlite]") {
  TemporaryFolder folder;
  const auto file = folder.path() / "state.db";
  REQUIRE(SqliteStore::Open(folder.path()).ok());
  const std::string newer = std::to_string(kStateFileVersion + 1);
  Execute(file, ("PRAGMA user_version=" + newer + "; CREATE TABLE novelty (x)").c_str());
  const Status status = SqliteStore::Open(folder.path()).status();
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(status.message().find("version " + newer) != std::string::npos);
  CHECK(status.message().find("knows " + std::to_string(kStateFileVersion)) != std::string::npos);
  CHECK(Number(file, "PRAGMA user_version") == kStateFileVersion + 1);
}

TEST_CASE("another program's database is refused and not touched, whatever version it says",
          "[sqlite]") {
  const std::string sql =
      GENERATE("", "PRAGMA user_version=1;", "PRAGMA user_version=2;", "PRAGMA application_id=7;");
  TemporaryFolder folder;
  const auto file = folder.path() / "state.db";
  Execute(file, (sql + "CREATE TABLE recipes (name TEXT)").c_str());
  const Status status = SqliteStore::Open(folder.path()).status();
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK(status.message().find("another program's") != std::string::npos);
  CHECK(Number(file, "SELECT count(*) FROM sqlite_schema") == 1);
}

}  // namespace
}  // namespace millrace::test
