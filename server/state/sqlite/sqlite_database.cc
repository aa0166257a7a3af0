#include "server/state/sqlite/sqlite_database.h"

#include <sqlite3.h>

#include <algorithm>

namespace millrace {
namespace {

// A backup that begins, and a writer that ends, lock the file only for moments.
constexpr int kBusyMilliseconds = 5000;

constexpr std::string_view kStartAnew =
    "move it away to start anew (past jobs are forgotten, nothing else is lost), or put a backup "
    "in its place";

}  // namespace

void FinalizeStatement::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void SqliteDatabase::CloseDatabase::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

Status SqliteDatabase::Open(Mode mode) {
  sqlite3* db = nullptr;
  const int flags =
      mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(file_.c_str(), &db, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  db_.reset(db);
  if (code != SQLITE_OK) return Error("open");
  sqlite3_busy_timeout(db, kBusyMilliseconds);
  return OkStatus();
}

Status SqliteDatabase::CheckIntegrity() {
  MILLRACE_ASSIGN_OR_RETURN(const SqliteStatement check, Prepare("PRAGMA integrity_check(1)"));
  if (sqlite3_step(check.get()) != SQLITE_ROW) return Error("check");
  std::string verdict(reinterpret_cast<const char*>(sqlite3_column_text(check.get(), 0)));
  if (verdict == "ok") return OkStatus();
  std::replace(verdict.begin(), verdict.end(), '\n', ' ');
  return DataLoss("state file " + file_.string() + " is damaged: " + verdict + "; " +
                  std::string(kStartAnew));
}

Status SqliteDatabase::Execute(const char* sql) {
  if (!broken_.ok()) return broken_;
  return sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK ? OkStatus()
                                                                              : Error(sql);
}

Result<SqliteStatement> SqliteDatabase::Prepare(const char* sql) {
  if (!broken_.ok()) return broken_;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db_.get(), sql, -1, &statement, nullptr) != SQLITE_OK) return Error(sql);
  return SqliteStatement(statement);
}

Status SqliteDatabase::Finish(sqlite3_stmt* statement) {
  return sqlite3_step(statement) == SQLITE_DONE ? OkStatus() : Error("write");
}

Result<std::int64_t> SqliteDatabase::Number(const char* sql) {
  MILLRACE_ASSIGN_OR_RETURN(const SqliteStatement select, Prepare(sql));
  if (sqlite3_step(select.get()) != SQLITE_ROW) return Error(sql);
  return sqlite3_column_int64(select.get(), 0);
}

Status SqliteDatabase::Transact(const std::function<Status()>& change) {
  MILLRACE_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  Status status = change();
  if (status.ok()) status = Execute("COMMIT");
  if (!status.ok() && sqlite3_get_autocommit(db_.get()) == 0) {
    sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return status;
}

Status SqliteDatabase::Error(std::string_view doing) {
  if (!broken_.ok()) return broken_;
  const int code = db_ ? sqlite3_extended_errcode(db_.get()) : SQLITE_NOMEM;
  const std::string what = "state file " + file_.string() + ": " +
                           (db_ ? sqlite3_errmsg(db_.get()) : "out of memory") + " (" +
                           std::string(doing.substr(0, doing.find('\n'))) + ")";
  if (code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC) {
    broken_ = Internal(what +
                       ": fsync failed, so that nobody knows what is on disk; look at the "
                       "disk and start the daemon again");
    return broken_;
  }
  switch (code & 0xFF) {
    case SQLITE_FULL:
      return ResourceExhausted(what + ": free space on its disk");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // our statements are right, so the file has another schema
      return DataLoss(what + ": " + std::string(kStartAnew));
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return PermissionDenied(what);
    default:
      return Unavailable(what);
  }
}

}  // namespace millrace
