// One connection to one SQLite file. SQLite's errors become Status values.
//
// Thread-compatible: only one thread may use it at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace millrace {

struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const;
};
using SqliteStatement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

/// Messages name the file. Codes: ResourceExhausted if the disk is full. DataLoss for a damaged
/// file. PermissionDenied. Unavailable for errors that may pass. Internal after a failed fsync: the
/// kernel may have dropped the data, and it reports that only once. So the content of the file
/// cannot be trusted until it is opened anew. Every later call fails with that error too.
class SqliteDatabase {
 public:
  enum class Mode { kReadWrite, kReadOnly };

  explicit SqliteDatabase(std::filesystem::path file) : file_(std::move(file)) {}

  /// Opens the file. kReadWrite creates it if it does not exist.
  Status Open(Mode mode);
  /// DataLoss, with SQLite's first finding, if the pages and indexes of the file are not
  /// consistent.
  Status CheckIntegrity();

  Status Execute(const char* sql);
  Result<SqliteStatement> Prepare(const char* sql);
  /// Runs a statement that returns no rows.
  Status Finish(sqlite3_stmt* statement);
  /// The first column of the first row, as a number.
  Result<std::int64_t> Number(const char* sql);
  /// Does all of `change`, or nothing.
  Status Transact(const std::function<Status()>& change);

  /// The error of SQLite's last call. `doing` names the action.
  Status Error(std::string_view doing);

  const std::filesystem::path& file() const { return file_; }
  sqlite3* handle() { return db_.get(); }

 private:
  struct CloseDatabase {
    void operator()(sqlite3* db) const;
  };

  const std::filesystem::path file_;
  std::unique_ptr<sqlite3, CloseDatabase> db_;
  Status broken_;  // not ok after an fsync has failed
};

}  // namespace millrace
