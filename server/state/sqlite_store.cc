#include "server/state/sqlite_store.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "common/base/errno_status.h"
#include "common/base/mutex.h"
#include "server/state/folder_lock.h"

namespace millrace {
namespace {

constexpr int kSchemaVersion = 1;
constexpr int kEndedRecordsKept = 1000;
constexpr std::int64_t kSecondsKept = 7 * 24 * 3600;

constexpr const char* kSchema = R"(
CREATE TABLE leader (id INTEGER PRIMARY KEY CHECK (id = 1), term INTEGER NOT NULL);
INSERT INTO leader VALUES (1, 0);
CREATE TABLE jobs (
  name TEXT PRIMARY KEY,
  ended INTEGER NOT NULL,
  ended_unix_seconds INTEGER NOT NULL,
  record BLOB NOT NULL  -- millrace.v1.JobRecord
);
)";

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

class SqliteStoreImpl final : public StateStore {
 public:
  SqliteStoreImpl(std::filesystem::path file, FolderLock lock)
      : file_(std::move(file)), lock_(std::move(lock)) {}

  Status Open() {
    MutexLock lock(mutex_);
    sqlite3* db = nullptr;
    const int code =
        sqlite3_open_v2(file_.c_str(), &db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    db_.reset(db);
    if (code != SQLITE_OK) return Error("open");
    if (stat(file_.c_str(), &opened_) != 0) {
      return ErrnoStatus("state file " + file_.string(), errno);
    }
    // The folder's lock keeps others away, so that the log needs no shared memory.
    for (const char* pragma :
         {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"}) {
      MILLRACE_RETURN_IF_ERROR(Execute(pragma));
    }
    MILLRACE_RETURN_IF_ERROR(CheckIntegrity());
    return CheckSchema();
  }

  Result<StoredState> Load() override {
    MutexLock lock(mutex_);
    StoredState state;
    MILLRACE_ASSIGN_OR_RETURN(state.term, Term());
    MILLRACE_ASSIGN_OR_RETURN(const Statement select,
                              Prepare("SELECT record FROM jobs ORDER BY name"));
    int code;
    while ((code = sqlite3_step(select.get())) == SQLITE_ROW) {
      const int bytes = sqlite3_column_bytes(select.get(), 0);
      if (!state.jobs.emplace_back().ParseFromArray(sqlite3_column_blob(select.get(), 0), bytes)) {
        return DataLoss(
            "state file " + file_.string() +
            ": a job record that cannot be read; move the file away to start anew (past "
            "jobs are forgotten, nothing else is lost)");
      }
    }
    if (code != SQLITE_DONE) return Error("read");
    return state;
  }

  Status CommitTerm(std::uint64_t term) override {
    MutexLock lock(mutex_);
    return Transact([&]() MILLRACE_REQUIRES(mutex_) -> Status {
      MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t present, Term());
      if (term <= present) {
        return FailedPrecondition("term " + std::to_string(term) + " is over: the store has term " +
                                  std::to_string(present));
      }
      MILLRACE_ASSIGN_OR_RETURN(const Statement update, Prepare("UPDATE leader SET term = ?"));
      sqlite3_bind_int64(update.get(), 1, static_cast<sqlite3_int64>(term));
      return Finish(update.get());
    });
  }

  Status CommitJob(std::uint64_t term, const v1::JobRecord& record,
                   std::int64_t now_unix_seconds) override {
    MutexLock lock(mutex_);
    return Transact([&]() MILLRACE_REQUIRES(mutex_) -> Status {
      MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t present, Term());
      if (term != present) {
        return FailedPrecondition("term " + std::to_string(term) +
                                  " may not write: the store has term " + std::to_string(present));
      }
      MILLRACE_RETURN_IF_ERROR(Put(record));
      return Trim(now_unix_seconds);
    });
  }

 private:
  Status Put(const v1::JobRecord& record) MILLRACE_REQUIRES(mutex_) {
    MILLRACE_ASSIGN_OR_RETURN(const Statement put,
                              Prepare("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?)"));
    const std::string bytes = record.SerializeAsString();
    sqlite3_bind_text(put.get(), 1, record.name().data(), static_cast<int>(record.name().size()),
                      SQLITE_STATIC);
    sqlite3_bind_int(put.get(), 2, record.ended() ? 1 : 0);
    sqlite3_bind_int64(put.get(), 3, record.ended_unix_seconds());
    sqlite3_bind_blob(put.get(), 4, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
    return Finish(put.get());
  }

  Status Trim(std::int64_t now_unix_seconds) MILLRACE_REQUIRES(mutex_) {
    MILLRACE_ASSIGN_OR_RETURN(
        const Statement trim,
        Prepare(
            "DELETE FROM jobs WHERE ended = 1 AND (ended_unix_seconds < ? OR name NOT IN (SELECT "
            "name FROM jobs WHERE ended = 1 ORDER BY ended_unix_seconds DESC, name LIMIT ?))"));
    sqlite3_bind_int64(trim.get(), 1, now_unix_seconds - kSecondsKept);
    sqlite3_bind_int(trim.get(), 2, kEndedRecordsKept);
    return Finish(trim.get());
  }

  Result<std::uint64_t> Term() MILLRACE_REQUIRES(mutex_) {
    MILLRACE_ASSIGN_OR_RETURN(const Statement select, Prepare("SELECT term FROM leader"));
    if (sqlite3_step(select.get()) != SQLITE_ROW) return Error("read the term");
    return static_cast<std::uint64_t>(sqlite3_column_int64(select.get(), 0));
  }

  Status CheckIntegrity() MILLRACE_REQUIRES(mutex_) {
    MILLRACE_ASSIGN_OR_RETURN(const Statement check, Prepare("PRAGMA quick_check(1)"));
    if (sqlite3_step(check.get()) != SQLITE_ROW) return Error("check");
    std::string verdict(reinterpret_cast<const char*>(sqlite3_column_text(check.get(), 0)));
    if (verdict == "ok") return OkStatus();
    std::replace(verdict.begin(), verdict.end(), '\n', ' ');
    return DataLoss("state file " + file_.string() + " is damaged: " + verdict +
                    "; move it away to start anew (past jobs are forgotten, nothing else is lost)");
  }

  /// A file without our version is a new one, or another program's.
  Status CheckEmpty() MILLRACE_REQUIRES(mutex_) {
    MILLRACE_ASSIGN_OR_RETURN(const Statement select,
                              Prepare("SELECT name FROM sqlite_schema LIMIT 1"));
    const int code = sqlite3_step(select.get());
    if (code == SQLITE_DONE) return OkStatus();
    if (code != SQLITE_ROW) return Error("read the schema");
    const std::string table(reinterpret_cast<const char*>(sqlite3_column_text(select.get(), 0)));
    return FailedPrecondition("state file " + file_.string() +
                              " is another program's (it has table " + table +
                              "): give this daemon another folder by --state");
  }

  Status CheckSchema() MILLRACE_REQUIRES(mutex_) {
    int version = 0;
    {
      MILLRACE_ASSIGN_OR_RETURN(const Statement select, Prepare("PRAGMA user_version"));
      if (sqlite3_step(select.get()) != SQLITE_ROW) return Error("read the version");
      version = sqlite3_column_int(select.get(), 0);
    }
    if (version > kSchemaVersion) {
      return FailedPrecondition(
          "state file " + file_.string() + " has version " + std::to_string(version) +
          ", written by a newer program; this one knows " + std::to_string(kSchemaVersion));
    }
    if (version == kSchemaVersion) return OkStatus();
    MILLRACE_RETURN_IF_ERROR(CheckEmpty());
    return Transact([&]() MILLRACE_REQUIRES(mutex_) -> Status {
      MILLRACE_RETURN_IF_ERROR(Execute(kSchema));
      return Execute(("PRAGMA user_version=" + std::to_string(kSchemaVersion)).c_str());
    });
  }

  // A file that was deleted or replaced can still be written, and whatever is written is lost.
  Status CheckInPlace() MILLRACE_REQUIRES(mutex_) {
    struct stat present {};
    if (stat(file_.c_str(), &present) == 0 && present.st_dev == opened_.st_dev &&
        present.st_ino == opened_.st_ino) {
      return OkStatus();
    }
    return Unavailable("state file " + file_.string() +
                       ": was deleted or replaced while the daemon had it open; put it back, or "
                       "restart the daemon");
  }

  template <class F>
  Status Transact(F change) MILLRACE_REQUIRES(mutex_) {
    MILLRACE_RETURN_IF_ERROR(CheckInPlace());
    MILLRACE_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
    Status status = change();
    if (status.ok()) status = Execute("COMMIT");
    if (!status.ok() && sqlite3_get_autocommit(db_.get()) == 0) {
      sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
    return status;
  }

  Status Execute(const char* sql) MILLRACE_REQUIRES(mutex_) {
    return sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK ? OkStatus()
                                                                                : Error(sql);
  }

  Result<Statement> Prepare(const char* sql) MILLRACE_REQUIRES(mutex_) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(db_.get(), sql, -1, &statement, nullptr) != SQLITE_OK) return Error(sql);
    return Statement(statement);
  }

  Status Finish(sqlite3_stmt* statement) MILLRACE_REQUIRES(mutex_) {
    return sqlite3_step(statement) == SQLITE_DONE ? OkStatus() : Error("write");
  }

  Status Error(std::string_view doing) MILLRACE_REQUIRES(mutex_) {
    const int code = sqlite3_errcode(db_.get()) & 0xFF;
    const std::string what = "state file " + file_.string() + ": " +
                             (db_ ? sqlite3_errmsg(db_.get()) : "out of memory") + " (" +
                             std::string(doing.substr(0, doing.find('\n'))) + ")";
    switch (code) {
      case SQLITE_FULL:
        return ResourceExhausted(what + ": free space on its disk");
      case SQLITE_CORRUPT:
      case SQLITE_NOTADB:
        return DataLoss(what +
                        ": move it away to start anew (past jobs are forgotten, nothing else is "
                        "lost)");
      case SQLITE_CANTOPEN:
      case SQLITE_PERM:
      case SQLITE_READONLY:
        return PermissionDenied(what);
      default:
        return Unavailable(what);
    }
  }

  const std::filesystem::path file_;
  const FolderLock lock_;
  Mutex mutex_;
  Database db_ MILLRACE_GUARDED_BY(mutex_);
  struct stat opened_ MILLRACE_GUARDED_BY(mutex_) {};  // the file that db_ is
};

}  // namespace

Result<std::unique_ptr<StateStore>> SqliteStore::Open(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder)) {
    return PermissionDenied("state folder " + folder.string() + ": " +
                            (error ? error.message() : "is no folder") +
                            "; give another by --state");
  }
  if (access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    return PermissionDenied("state folder " + folder.string() + ": no permission to write there");
  }
  MILLRACE_ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(folder));
  auto store = std::make_unique<SqliteStoreImpl>(folder / "state.db", std::move(lock));
  MILLRACE_RETURN_IF_ERROR(store->Open());
  return std::unique_ptr<StateStore>(std::move(store));
}

}  // namespace millrace
