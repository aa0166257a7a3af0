// One connection to one SQLite file, with SQLite's errors as ours.
//
// Thread-compatible: one thread at a time.
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

/// Messages name the file. Codes: ResourceExhausted where the disk is full, DataLoss for a damaged
/// file, PermissionDenied, Unavailable for what may pass. Internal after an fsync that failed: the
/// kernel may have dropped what was to be written and says so only once, so that nothing the file
/// seems to hold can be trusted before it is opened anew. Every later call fails with that too.
class SqliteDatabase {
 public:
  enum class Mode { kReadWrite, kReadOnly };

  explicit SqliteDatabase(std::filesystem::path file) : file_(std::move(file)) {}

  /// Opens the file; kReadWrite makes it where it is missing.
  Status Open(Mode mode);
  /// DataLoss, with SQLite's first finding, unless the file's pages and indexes fit each other.
  Status CheckIntegrity();

  Status Execute(const char* sql);
  Result<SqliteStatement> Prepare(const char* sql);
  /// Runs a statement that gives no rows.
  Status Finish(sqlite3_stmt* statement);
  /// The first column of the first row, as a number.
  Result<std::int64_t> Number(const char* sql);
  /// `change` whole, or nothing of it.
  Status Transact(const std::function<Status()>& change);

  /// What SQLite's last call says was wrong while `doing` that.
  Status Error(std::string_view doing);

  const std::filesystem::path& file() const { return file_; }
  sqlite3* handle() { return db_.get(); }

 private:
  struct CloseDatabase {
    void operator()(sqlite3* db) const;
  };

  const std::filesystem::path file_;
  std::unique_ptr<sqlite3, CloseDatabase> db_;
  Status broken_;  // not ok: an fsync failed
};

}  // namespace millrace
