#include "server/state/sqlite/sqlite_store.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "common/system/errno_status.h"
#include "common/system/mutex.h"
#include "server/state/sqlite/folder_lock.h"
#include "server/state/sqlite/sqlite_database.h"
#include "server/state/sqlite/sqlite_schema.h"

namespace millrace {
namespace {

class SqliteStoreImpl final : public StateStore {
 public:
  SqliteStoreImpl(const std::filesystem::path& file, FolderLock lock)
      : lock_(std::move(lock)), db_(file) {}

  Status Open() {
    MutexLock lock(mutex_);
    MILLRACE_RETURN_IF_ERROR(db_.Open(SqliteDatabase::Mode::kReadWrite));
    if (stat(db_.file().c_str(), &opened_) != 0) {
      return ErrnoStatus("state file " + db_.file().string(), errno);
    }
    // An older version may have left files that others can read.
    for (const char* suffix : {"", "-wal", "-shm"}) {
      chmod((db_.file().string() + suffix).c_str(), 0600);
    }
    // The lock on the folder keeps other writers away. A backup can read while this process writes.
    MILLRACE_RETURN_IF_ERROR(db_.Execute("PRAGMA journal_mode=WAL"));
    MILLRACE_RETURN_IF_ERROR(db_.Execute("PRAGMA synchronous=FULL"));
    MILLRACE_RETURN_IF_ERROR(db_.CheckIntegrity());
    return BringUpToDate(db_).status();
  }

  Result<StoredState> Load() override {
    MutexLock lock(mutex_);
    StoredState state;
    MILLRACE_ASSIGN_OR_RETURN(state.term, Term());
    MILLRACE_ASSIGN_OR_RETURN(const SqliteStatement select,
                              db_.Prepare("SELECT record FROM jobs ORDER BY name"));
    int code;
    while ((code = sqlite3_step(select.get())) == SQLITE_ROW) {
      const int bytes = sqlite3_column_bytes(select.get(), 0);
      if (!state.jobs.emplace_back().ParseFromArray(sqlite3_column_blob(select.get(), 0), bytes)) {
        return DataLoss("state file " + db_.file().string() +
                        ": a job record that cannot be read; move the file away to start anew "
                        "(past jobs are forgotten, nothing else is lost), or put a backup in its "
                        "place");
      }
    }
    if (code != SQLITE_DONE) return db_.Error("read");
    return state;
  }

  Status CommitTerm(std::uint64_t term) override {
    MutexLock lock(mutex_);
    MILLRACE_RETURN_IF_ERROR(CheckInPlace());
    return db_.Transact([&]() MILLRACE_REQUIRES(mutex_) -> Status {
      MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t present, Term());
      MILLRACE_RETURN_IF_ERROR(CheckNewTerm(term, present));
      MILLRACE_ASSIGN_OR_RETURN(const SqliteStatement update,
                                db_.Prepare("UPDATE leader SET term = ?"));
      sqlite3_bind_int64(update.get(), 1, static_cast<sqlite3_int64>(term));
      return db_.Finish(update.get());
    });
  }

  Status CommitJob(std::uint64_t term, const v1::JobRecord& record,
                   std::int64_t now_unix_seconds) override {
    MutexLock lock(mutex_);
    MILLRACE_RETURN_IF_ERROR(CheckInPlace());
    return db_.Transact([&]() MILLRACE_REQUIRES(mutex_) -> Status {
      MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t present, Term());
      MILLRACE_RETURN_IF_ERROR(CheckWritingTerm(term, present));
      MILLRACE_RETURN_IF_ERROR(Put(record));
      return Trim(now_unix_seconds);
    });
  }

 private:
  Status Put(const v1::JobRecord& record) MILLRACE_REQUIRES(mutex_) {
    MILLRACE_ASSIGN_OR_RETURN(const SqliteStatement put,
                              db_.Prepare("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?)"));
    const std::string bytes = record.SerializeAsString();
    sqlite3_bind_text(put.get(), 1, record.name().data(), static_cast<int>(record.name().size()),
                      SQLITE_STATIC);
    sqlite3_bind_int(put.get(), 2, record.ended() ? 1 : 0);
    sqlite3_bind_int64(put.get(), 3, record.ended_unix_seconds());
    sqlite3_bind_blob(put.get(), 4, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
    return db_.Finish(put.get());
  }

  Status Trim(std::int64_t now_unix_seconds) MILLRACE_REQUIRES(mutex_) {
    MILLRACE_ASSIGN_OR_RETURN(
        const SqliteStatement trim,
        db_.Prepare("DELETE FROM jobs WHERE ended = 1 AND (ended_unix_seconds < ? OR name IN ("
                    "SELECT name FROM jobs WHERE ended = 1 ORDER BY ended_unix_seconds DESC, name "
                    "LIMIT -1 OFFSET ?))"));
    sqlite3_bind_int64(trim.get(), 1, now_unix_seconds - kEndedSecondsKept);
    sqlite3_bind_int64(trim.get(), 2, static_cast<sqlite3_int64>(kEndedRecordsKept));
    return db_.Finish(trim.get());
  }

  Result<std::uint64_t> Term() MILLRACE_REQUIRES(mutex_) {
    MILLRACE_ASSIGN_OR_RETURN(const std::int64_t term, db_.Number("SELECT term FROM leader"));
    return static_cast<std::uint64_t>(term);
  }

  // A file that was deleted or replaced can still be written, but everything that is written is
  // lost.
  Status CheckInPlace() MILLRACE_REQUIRES(mutex_) {
    struct stat present {};
    if (stat(db_.file().c_str(), &present) == 0 && present.st_dev == opened_.st_dev &&
        present.st_ino == opened_.st_ino) {
      return OkStatus();
    }
    return Unavailable("state file " + db_.file().string() +
                       ": was deleted or replaced while the daemon had it open; put it back, or "
                       "restart the daemon");
  }

  const FolderLock lock_;
  Mutex mutex_;
  SqliteDatabase db_ MILLRACE_GUARDED_BY(mutex_);
  struct stat opened_ MILLRACE_GUARDED_BY(mutex_) {};  // the file that db_ has opened
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
  auto store = std::make_unique<SqliteStoreImpl>(folder / kFileName, std::move(lock));
  MILLRACE_RETURN_IF_ERROR(store->Open());
  return std::unique_ptr<StateStore>(std::move(store));
}

}  // namespace millrace
