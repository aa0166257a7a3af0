// Backups of a store while it is in use.
#include <catch2/catch.hpp>

#include <sqlite3.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "server/state/sqlite/sqlite_backup.h"
#include "server/state/sqlite/sqlite_store.h"
#include "tests/unit/server/state/job_record.h"
#include "tests/unit/server/state/sqlite/faulty_vfs.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

/// The state of a store that is started from a backup.
StoredState Restored(const fs::path& backup) {
  TemporaryFolder folder;
  fs::copy_file(backup, folder.path() / "state.db");
  auto store = SqliteStore::Open(folder.path());
  INFO(store.status().ToString());
  REQUIRE(store.ok());
  auto state = (*store)->Load();
  REQUIRE(state.ok());
  return std::move(state).value();
}

TEST_CASE("a backup of a store that is being written to is one moment of it", "[backup]") {
  TemporaryFolder folder;
  auto store = SqliteStore::Open(folder.path());
  REQUIRE(store.ok());
  REQUIRE((*store)->CommitTerm(1).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> written{0};
  std::atomic<int> refused{0};
  std::thread writer([&] {
    // Each term is followed by its job, so that a backup has as many jobs as terms, or one less.
    for (std::uint64_t term = 2; !stop; ++term) {
      const bool ok =
          (*store)->CommitTerm(term).ok() &&
          (*store)->CommitJob(term, Record("job" + std::to_string(term), 9'000), kNow).ok();
      ++(ok ? written : refused);
    }
  });
  for (int i = 0; i < 10; ++i) {
    const int before = written;
    while (written < before + 2 && refused == 0) std::this_thread::yield();
    const fs::path to = folder.path() / ("backup" + std::to_string(i));
    const auto summary = BackUpState(folder.path(), to);
    INFO(summary.status().ToString());
    REQUIRE(summary.ok());
    CHECK(summary->bytes == fs::file_size(to));
    const StoredState state = Restored(to);
    CHECK(state.term == summary->term);
    CHECK(state.jobs.size() == summary->jobs);
    CHECK(state.jobs.size() + 1 <= state.term);
    CHECK(state.jobs.size() + 2 >= state.term);
    CHECK(state.jobs.size() >= static_cast<std::size_t>(before));
  }
  stop = true;
  writer.join();
  CHECK(refused == 0);
}

TEST_CASE("a backup is made of a store that nobody has open, and of one that a crash left",
          "[backup]") {
  TemporaryFolder folder;
  TemporaryFolder crashed;
  {
    auto store = SqliteStore::Open(folder.path());
    REQUIRE(store.ok());
    REQUIRE((*store)->CommitTerm(3).ok());
    REQUIRE((*store)->CommitJob(3, Record("a"), kNow).ok());
    for (const char* name : {"state.db", "state.db-wal"}) {
      fs::copy_file(folder.path() / name, crashed.path() / name);
    }
  }
  for (const fs::path& from : {folder.path(), crashed.path()}) {
    REQUIRE(BackUpState(from, folder.path() / "copy").ok());
    CHECK(Restored(folder.path() / "copy").term == 3);
    CHECK(Restored(folder.path() / "copy").jobs.size() == 1);
    fs::remove(folder.path() / "copy");
    CHECK(SqliteStore::Open(from).ok());
  }
}

TEST_CASE("a backup never takes a file's place, and leaves nothing where it fails", "[backup]") {
  TemporaryFolder folder;
  TemporaryFolder target;
  const fs::path to = target.path() / "backup";
  CHECK(BackUpState(folder.path(), to).status().code() == StatusCode::kNotFound);
  REQUIRE(SqliteStore::Open(folder.path()).ok());
  std::ofstream(to) << "precious";
  CHECK(BackUpState(folder.path(), to).status().code() == StatusCode::kAlreadyExists);
  CHECK(fs::file_size(to) == 8);
  fs::remove(to);

  FaultyVfs vfs;
  vfs.Fail(FaultyVfs::Call::kWrite, 1, SQLITE_FULL, true);
  const Status full = BackUpState(folder.path(), to).status();
  CHECK(full.code() == StatusCode::kResourceExhausted);
  CHECK(full.message().find(to.string()) != std::string::npos);
  vfs.Heal();
  CHECK(fs::is_empty(target.path()));
  CHECK(BackUpState(folder.path(), to).ok());
  CHECK(std::distance(fs::directory_iterator(target.path()), {}) == 1);
}

TEST_CASE("a damaged store is not backed up as if it were whole", "[backup]") {
  TemporaryFolder folder;
  {
    auto store = SqliteStore::Open(folder.path());
    REQUIRE((*store)->CommitTerm(1).ok());
    for (int i = 0; i < 20; ++i) {
      REQUIRE((*store)->CommitJob(1, Record("job" + std::to_string(i), 2'000), kNow).ok());
    }
  }
  std::fstream file(folder.path() / "state.db", std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(4096);
  file.write(std::string(16, '\xff').data(), 16);
  file.close();
  const Status status = BackUpState(folder.path(), folder.path() / "backup").status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_FALSE(fs::exists(folder.path() / "backup"));
}

}  // namespace
}  // namespace millrace::test
