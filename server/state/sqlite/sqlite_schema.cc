#include "server/state/sqlite/sqlite_schema.h"

#include <sqlite3.h>

#include <array>
#include <string>

namespace millrace {
namespace {

/// Step i brings a file of version i to version i + 1. A step never changes after files have gone
/// through it.
constexpr std::array<const char*, kStateFileVersion> kSteps = {
    R"(
CREATE TABLE leader (id INTEGER PRIMARY KEY CHECK (id = 1), term INTEGER NOT NULL);
INSERT INTO leader VALUES (1, 0);
CREATE TABLE jobs (
  name TEXT PRIMARY KEY,
  ended INTEGER NOT NULL,
  ended_unix_seconds INTEGER NOT NULL,
  record BLOB NOT NULL  -- millrace.v1.JobRecord
);
)",
    // With the index, old records are found without reading all records. The application id marks
    // the file as ours.
    R"(
CREATE INDEX jobs_by_end ON jobs (ended, ended_unix_seconds DESC, name);
PRAGMA application_id=1296650835;
)",
};
static_assert(kStateFileApplication == 1296650835);

Status AnotherPrograms(SqliteDatabase& db, const std::string& has) {
  return FailedPrecondition("state file " + db.file().string() + " is another program's (it has " +
                            has + "): give this daemon another folder by --state");
}

/// The name of a table that version 1 does not have; empty if there is none.
Result<std::string> StrangeTable(SqliteDatabase& db, bool any) {
  MILLRACE_ASSIGN_OR_RETURN(
      const SqliteStatement select,
      db.Prepare(any ? "SELECT name FROM sqlite_schema LIMIT 1"
                     : "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN "
                       "('leader', 'jobs') LIMIT 1"));
  const int code = sqlite3_step(select.get());
  if (code == SQLITE_DONE) return std::string();
  if (code != SQLITE_ROW) return db.Error("read the schema");
  return std::string(reinterpret_cast<const char*>(sqlite3_column_text(select.get(), 0)));
}

}  // namespace

Result<int> StateFileVersion(SqliteDatabase& db) {
  MILLRACE_ASSIGN_OR_RETURN(const std::int64_t application, db.Number("PRAGMA application_id"));
  MILLRACE_ASSIGN_OR_RETURN(const std::int64_t version, db.Number("PRAGMA user_version"));
  if (application != kStateFileApplication) {
    if (application != 0) {
      return AnotherPrograms(db, "application id " + std::to_string(application));
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::string strange, StrangeTable(db, version != 1));
    if (!strange.empty()) return AnotherPrograms(db, "table " + strange);
  }
  if (version > kStateFileVersion) {
    return FailedPrecondition(
        "state file " + db.file().string() + " has version " + std::to_string(version) +
        ", written by a newer program; this one knows " + std::to_string(kStateFileVersion) +
        ": start the newer one, or put back a backup of before");
  }
  return static_cast<int>(version);
}

Result<int> BringUpToDate(SqliteDatabase& db) {
  MILLRACE_ASSIGN_OR_RETURN(const int version, StateFileVersion(db));
  if (version == kStateFileVersion) return version;
  const Status changed = db.Transact([&]() -> Status {
    for (int step = version; step < kStateFileVersion; ++step) {
      MILLRACE_RETURN_IF_ERROR(db.Execute(kSteps.at(static_cast<std::size_t>(step))));
    }
    return db.Execute(("PRAGMA user_version=" + std::to_string(kStateFileVersion)).c_str());
  });
  if (!changed.ok()) return changed;
  return version;
}

}  // namespace millrace
