#include "server/state/sqlite/sqlite_backup.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "common/system/errno_status.h"
#include "server/state/sqlite/sqlite_database.h"
#include "server/state/sqlite/sqlite_schema.h"
#include "server/state/sqlite/sqlite_store.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

/// A file that is deleted again unless it is kept.
class Temporary {
 public:
  explicit Temporary(fs::path path) : path_(std::move(path)) { Remove(); }
  ~Temporary() { Remove(); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  const fs::path& path() const { return path_; }

 private:
  void Remove() const {
    std::error_code ignored;
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
      fs::remove(path_.string() + suffix, ignored);
    }
  }

  const fs::path path_;
};

Status Copy(SqliteDatabase& from, SqliteDatabase& to) {
  sqlite3_backup* backup = sqlite3_backup_init(to.handle(), "main", from.handle(), "main");
  if (backup == nullptr) return to.Error("begin the backup");
  // Copies all pages at once, so that the copy is of one moment. The file is small.
  const int code = sqlite3_backup_step(backup, -1);
  const int finished = sqlite3_backup_finish(backup);
  if (code == SQLITE_DONE && finished == SQLITE_OK) return OkStatus();
  return to.Error("copy");
}

Status Sync(const fs::path& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("cannot open " + path.string(), errno);
  const int failed = fsync(fd);
  const int error = errno;
  close(fd);
  return failed == 0 ? OkStatus() : ErrnoStatus("cannot sync " + path.string(), error);
}

}  // namespace

Result<BackupSummary> BackUpState(const fs::path& folder, const fs::path& to) {
  const fs::path file = folder / SqliteStore::kFileName;
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    return NotFound("no state file " + file.string() +
                    ": give the folder that the dispatcher has as --state");
  }
  if (fs::exists(to, error)) {
    return AlreadyExists("backup " + to.string() + " is there already: give another name");
  }
  const Temporary partial(to.string() + ".tmp");
  BackupSummary summary;
  {
    SqliteDatabase from(file);
    MILLRACE_RETURN_IF_ERROR(from.Open(SqliteDatabase::Mode::kReadOnly));
    MILLRACE_ASSIGN_OR_RETURN(const int version, StateFileVersion(from));
    if (version == 0) return FailedPrecondition("state file " + file.string() + " is empty");
    SqliteDatabase copy(partial.path());
    MILLRACE_RETURN_IF_ERROR(copy.Open(SqliteDatabase::Mode::kReadWrite));
    MILLRACE_RETURN_IF_ERROR(Copy(from, copy));
    // So the copy is a single file, without a log next to it.
    MILLRACE_RETURN_IF_ERROR(copy.Execute("PRAGMA journal_mode=DELETE"));
    MILLRACE_RETURN_IF_ERROR(copy.CheckIntegrity());
    MILLRACE_ASSIGN_OR_RETURN(const std::int64_t term, copy.Number("SELECT term FROM leader"));
    MILLRACE_ASSIGN_OR_RETURN(const std::int64_t jobs, copy.Number("SELECT count(*) FROM jobs"));
    summary.term = static_cast<std::uint64_t>(term);
    summary.jobs = static_cast<std::uint64_t>(jobs);
  }
  MILLRACE_RETURN_IF_ERROR(Sync(partial.path(), O_RDONLY));
  summary.bytes = fs::file_size(partial.path(), error);
  // link never replaces a file that was created meanwhile.
  if (link(partial.path().c_str(), to.c_str()) != 0) {
    return ErrnoStatus("cannot make backup " + to.string(), errno);
  }
  const fs::path parent = to.has_parent_path() ? to.parent_path() : fs::path(".");
  MILLRACE_RETURN_IF_ERROR(Sync(parent, O_RDONLY | O_DIRECTORY));
  return summary;
}

}  // namespace millrace
