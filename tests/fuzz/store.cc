// The state folder in which a dispatcher begins. Byte 0 of an input says what the rest is. 0: the
// database and its log as files (length of the log in 4 bytes, log, database). 1: records in an
// honest database (name, a zero byte, length in 2 bytes, record; again and again).
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/state/sqlite/sqlite_schema.h"
#include "server/state/sqlite/sqlite_store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/unit/server/dispatcher/machine/harness.h"
#include "tests/unit/server/state/job_record.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::fuzz {
namespace {

namespace fs = std::filesystem;

void Write(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
std::string Read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteRecords(const fs::path& folder, Input in) {
  SqliteDatabase db(folder / SqliteStore::kFileName);
  RequireOk(db.Open(SqliteDatabase::Mode::kReadWrite), "a new database");
  RequireOk(db.Execute("PRAGMA synchronous=OFF"), "a fast database");
  RequireOk(BringUpToDate(db).status(), "its tables");
  while (!in.empty()) {
    const std::string_view name = in.TakeTo('\0');
    const std::string_view record = in.Take(in.Number(2));
    const auto insert = db.Prepare("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?)");
    RequireOk(insert.status(), "an insertion");
    sqlite3_bind_text(insert->get(), 1, name.data(), static_cast<int>(name.size()), nullptr);
    sqlite3_bind_int(insert->get(), 2, static_cast<int>(name.size() % 2));
    sqlite3_bind_int64(insert->get(), 3, 1'700'000'000);
    sqlite3_bind_blob(insert->get(), 4, record.data(), static_cast<int>(record.size()), nullptr);
    RequireOk(db.Finish(insert->get()), "a row");
  }
}

/// Checks that a dispatcher that finds these records still admits a trainer.
void Lead(const StoredState& state) {
  test::Harness harness({}, state.term + 1, state.jobs);
  harness.AddWorker("w");
  const StreamId stream = harness.Attach(test::HelloOptions{.job = "honest", .world_size = 1});
  harness.talking.push_back(stream);
  harness.Advance(std::chrono::seconds(15));
  Require(harness.WelcomeOn(stream) != nullptr, "records hold up no trainer");
}

void Use(const fs::path& folder) {
  auto store = SqliteStore::Open(folder);
  if (!store.ok()) {
    const StatusCode code = store.status().code();
    Require(
        code == StatusCode::kDataLoss || code == StatusCode::kFailedPrecondition,
        "a file that cannot be used is damaged or another program's: " + store.status().message());
    return;
  }
  auto state = (*store)->Load();
  if (!state.ok()) {
    Require(state.status().code() == StatusCode::kDataLoss,
            "what cannot be loaded is damaged: " + state.status().message());
    return;
  }
  // Terms count on from the stored one; the largest term has no successor.
  if (state->term > std::uint64_t{1} << 62) return;
  const Status begun = (*store)->CommitTerm(state->term + 1);
  if (!begun.ok()) return;
  const Status written = (*store)->CommitJob(state->term + 1, test::Record("new"), 1'700'000'100);
  const auto again = (*store)->Load();
  Require(again.ok() && again->term == state->term + 1, "a term that was committed is there");
  if (written.ok()) {
    bool found = false;
    for (const v1::JobRecord& record : again->jobs) found = found || record.name() == "new";
    Require(found, "a record that was committed is there");
  }
  Lead(*state);
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  namespace fs = std::filesystem;
  static const test::TemporaryFolder world;
  const fs::path folder = world.path() / "state";
  fs::remove_all(folder);
  fs::create_directory(folder);
  fuzz::Input in(data, size);
  if (in.Byte() % 2 == 0) {
    const std::string_view log = in.Take(in.Number(4));
    fuzz::Write(folder / SqliteStore::kFileName, in.rest());
    if (!log.empty()) {
      fuzz::Write(folder / (std::string(SqliteStore::kFileName) + "-wal"), log);
    }
  } else {
    fuzz::WriteRecords(folder, in);
  }
  fuzz::Use(folder);
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / SqliteStore::kFileName;
  const fs::path log = file.string() + "-wal";
  std::vector<std::string> seeds;
  const auto add_files = [&] {
    const std::string log_bytes = fs::exists(log) ? Read(log) : std::string();
    seeds.push_back(std::string(1, '\0') + NumberBytes(log_bytes.size(), 4) + log_bytes +
                    Read(file));
  };
  {
    const auto store = SqliteStore::Open(folder.path());
    RequireOk(store.status(), "a store");
    RequireOk((*store)->CommitTerm(7), "a term");
    RequireOk((*store)->CommitJob(7, test::Record("a"), 1'700'000'000), "a record");
    add_files();
  }
  add_files();
  std::string records(1, '\1');
  for (const char* name : {"a", "bb"}) {
    const std::string record = test::Record(name).SerializeAsString();
    records += std::string(name) + '\0' + NumberBytes(record.size(), 2) + record;
  }
  seeds.push_back(records);
  return seeds;
}
