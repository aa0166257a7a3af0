// Where a dispatcher keeps the columns that workers measure for it.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace {

/// Thread-safe.
class ColumnKeeper {
 public:
  virtual ~ColumnKeeper() = default;
  /// Keeps a range that a worker has measured. May write to disk.
  virtual Status Keep(const v1::Measured& measured) = 0;
  /// Keeps columns whose ranges are all measured, so that plans over them compile. Not ok if ranges
  /// are missing.
  virtual Status Finish(const v1::ColumnSet& set) = 0;
  /// Ends measuring. Data on disk stay there.
  virtual void Abandon(const v1::ColumnSet& set) = 0;
  /// The bytes of a column's file (docs/formats/columns.md). NotFound if it is not kept here.
  virtual Result<std::shared_ptr<const std::string>> File(const v1::GetColumnRequest& request) = 0;
};

}  // namespace millrace
