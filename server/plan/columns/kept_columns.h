// The columns of a dispatcher. Workers measure columns that are in no file; their values are put
// together here, and kept in files beside the index. docs/formats/columns.md has the formats.
//
// Thread-safe. Calls about a column that is not being measured do nothing.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/system/mutex.h"
#include "server/plan/columns/column_folders.h"
#include "server/plan/columns/column_provider.h"
#include "server/plan/columns/partial_column.h"

namespace millrace {

class KeptColumns final : public ColumnProvider {
 public:
  explicit KeptColumns(std::shared_ptr<Logger> logger) : logger_(std::move(logger)) {}

  /// Unavailable, with their names, if columns have to be measured first.
  Result<MeasuredColumns> Get(const ColumnRequest& request) override;
  /// The columns of a request that have to be measured first, by name.
  std::vector<std::string> Missing(const ColumnRequest& request);
  /// Whether a column is kept. If it is in a file, Encoded finds it from then on.
  bool Has(const ColumnPlace& place) { return FindKept(place) != nullptr; }

  /// Begins to measure a column, or goes on from the values that an earlier process has measured.
  void Begin(const ColumnPlace& place);
  /// The ranges of a column that are measured already, by their first examples.
  std::vector<std::uint64_t> Measured(const ColumnKey& key) const;
  /// Takes the values of a range. Errors of PartialColumn::Put.
  Status Put(const ColumnKey& key, std::uint64_t first, const MeasuredValues& values);
  /// Keeps a column that is whole now. FailedPrecondition if it is not. If no folder can be
  /// written, it is kept in memory, and a warning is logged.
  Status Finish(const ColumnKey& key);
  /// Ends measuring. The file stays as it is.
  void Abandon(const ColumnKey& key);

  /// The bytes of a column's file. NotFound if it is not kept here, or has not been asked for yet.
  Result<std::shared_ptr<const std::string>> Encoded(const ColumnKey& key) const;

 private:
  struct Begun {
    std::vector<std::filesystem::path> folders;
    PartialColumn column;
  };

  /// The column, from memory or a file; null if it has to be measured.
  std::shared_ptr<const MeasuredValues> FindKept(const ColumnPlace& place);

  const std::shared_ptr<Logger> logger_;
  mutable Mutex mutex_;
  // By the names of their files.
  std::map<std::string, Begun> begun_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<std::filesystem::path>> folders_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<const MeasuredValues>> in_memory_
      MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
