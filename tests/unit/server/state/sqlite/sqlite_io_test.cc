// The SQLite store on a file system where calls fail and the power is cut.
#include <catch2/catch.hpp>

#include <sqlite3.h>

#include <filesystem>
#include <set>
#include <string>

#include "server/state/sqlite/sqlite_store.h"
#include "tests/unit/server/state/job_record.h"
#include "tests/unit/server/state/sqlite/faulty_vfs.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::test {
namespace {

using Call = FaultyVfs::Call;

/// The results that the store reported in a run of commits.
struct Told {
  std::uint64_t term = 0;        // acknowledged
  std::set<std::string> jobs;    // acknowledged
  std::uint64_t tried_term = 0;  // at least begun
  std::set<std::string> tried;   // at least begun
  bool ended_internal = false;   // and nothing was acknowledged after that
};

/// Opens the store of `folder`, and commits a term and jobs in turn. Only the error Internal ends
/// it early.
Told Run(const std::filesystem::path& folder) {
  Told told;
  auto opened = SqliteStore::Open(folder);
  if (!opened.ok()) {
    told.ended_internal = opened.status().code() == StatusCode::kInternal;
    return told;
  }
  StateStore& store = **opened;
  const auto note = [&](const Status& status) {
    if (told.ended_internal) CHECK(status.code() == StatusCode::kInternal);
    told.ended_internal = told.ended_internal || status.code() == StatusCode::kInternal;
    return status.ok();
  };
  for (std::uint64_t term = 1; term <= 3; ++term) {
    told.tried_term = term;
    if (note(store.CommitTerm(term))) told.term = term;
    const std::string job = "job" + std::to_string(term);
    told.tried.insert(job);
    if (note(store.CommitJob(told.term, Record(job, 6'000), kNow))) told.jobs.insert(job);
  }
  return told;
}

/// Checks that everything acknowledged is there, that nothing is there that was never tried, and
/// that all records are whole.
void CheckKept(const std::filesystem::path& folder, const Told& told) {
  auto store = SqliteStore::Open(folder);
  INFO(store.status().ToString());
  REQUIRE(store.ok());
  const auto state = (*store)->Load();
  REQUIRE(state.ok());
  CHECK(state->term >= told.term);
  CHECK(state->term <= told.tried_term);
  std::set<std::string> there;
  for (const auto& record : state->jobs) {
    there.insert(record.name());
    CHECK(told.tried.count(record.name()) == 1);
    CHECK(record.pipeline().yaml().size() == 6'000);
  }
  for (const std::string& job : told.jobs) CHECK(there.count(job) == 1);
}

TEST_CASE("whichever call of the file system fails, what was acknowledged is there", "[sqlite]") {
  struct Kind {
    Call call;
    int code;
    bool for_ever;
  };
  const Kind kind = GENERATE(
      Kind{Call::kWrite, SQLITE_IOERR_WRITE, false}, Kind{Call::kWrite, SQLITE_FULL, true},
      Kind{Call::kRead, SQLITE_IOERR_READ, false}, Kind{Call::kOpen, SQLITE_CANTOPEN, false},
      Kind{Call::kTruncate, SQLITE_IOERR_TRUNCATE, false},
      Kind{Call::kSync, SQLITE_IOERR_FSYNC, false});
  int runs = 0;
  for (int after = 0;; ++after) {
    TemporaryFolder folder;
    FaultyVfs vfs;
    vfs.Fail(kind.call, after, kind.code, kind.for_ever);
    const Told told = Run(folder.path());
    const bool hit = vfs.failed() > 0;
    vfs.Heal();
    INFO("call " << static_cast<int>(kind.call) << " code " << kind.code << " after " << after);
    CheckKept(folder.path(), told);
    if (!hit) {
      // The whole run passed, so there are no more calls of this kind.
      CHECK(told.term == 3);
      CHECK(told.jobs.size() == 3);
      break;
    }
    ++runs;
  }
  CHECK((runs >= 3 || kind.call == Call::kTruncate));
}

TEST_CASE("after an fsync that failed a store says Internal for ever, and a new one goes on",
          "[sqlite]") {
  TemporaryFolder folder;
  FaultyVfs vfs;
  auto opened = SqliteStore::Open(folder.path());
  REQUIRE(opened.ok());
  REQUIRE((*opened)->CommitTerm(1).ok());
  vfs.Fail(Call::kSync, 0, SQLITE_IOERR_FSYNC);
  const Status failed = (*opened)->CommitJob(1, Record("lost"), kNow);
  CHECK(failed.code() == StatusCode::kInternal);
  CHECK(failed.message().find("fsync failed") != std::string::npos);
  CHECK(failed.message().find((folder.path() / "state.db").string()) != std::string::npos);
  // The disk works again, but the data that the kernel dropped is lost.
  CHECK((*opened)->CommitJob(1, Record("later"), kNow) == failed);
  CHECK((*opened)->CommitTerm(2) == failed);
  CHECK((*opened)->Load().status() == failed);
  opened = Status(StatusCode::kCancelled, "closed");
  auto again = SqliteStore::Open(folder.path());
  REQUIRE(again.ok());
  CHECK((*again)->Load()->term == 1);
  CHECK((*again)->CommitTerm(2).ok());
}

TEST_CASE("a power cut after a commit leaves the commit", "[sqlite]") {
  TemporaryFolder folder;
  FaultyVfs vfs(FaultyVfs::Power::kMayGo);
  auto store = SqliteStore::Open(folder.path());
  REQUIRE(store.ok());
  // This is more than the log holds before it is folded into the file.
  for (std::uint64_t term = 1; term <= 60; ++term) {
    REQUIRE((*store)->CommitTerm(term).ok());
    REQUIRE((*store)->CommitJob(term, Record("job" + std::to_string(term), 65'000), kNow).ok());
    if (term % 7 != 1 && term < 55) continue;
    TemporaryFolder after;
    vfs.CutPower(folder.path(), after.path());
    auto recovered = SqliteStore::Open(after.path());
    INFO(recovered.status().ToString());
    REQUIRE(recovered.ok());
    CHECK((*recovered)->Load()->term == term);
    CHECK((*recovered)->Load()->jobs.size() == term);
  }
}

}  // namespace
}  // namespace millrace::test
