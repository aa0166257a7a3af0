// The columns of a worker, which it does not measure itself but fetches from its dispatcher.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/result.h"
#include "server/plan/columns/column_provider.h"
#include "server/source/column_file.h"

namespace millrace {

/// Takes columns from files, and fetches columns without files. A fetched column has to match its
/// digest, and is kept in a file. Thread-safe.
class FetchedColumns final : public ColumnProvider {
 public:
  /// Gets the bytes of a column's file from the dispatcher. Blocks until they are there.
  using Fetch = std::function<Result<std::string>(const ColumnKey&)>;

  FetchedColumns(Fetch fetch, std::shared_ptr<Logger> logger)
      : fetch_(std::move(fetch)), logger_(std::move(logger)) {}

  /// Unavailable, with the reason, if a column cannot be fetched now.
  Result<MeasuredColumns> Get(const ColumnRequest& request) override;

 private:
  Result<MeasuredValues> FetchOne(const ColumnRequest& request, const std::string& name) const;

  const Fetch fetch_;
  const std::shared_ptr<Logger> logger_;
};

}  // namespace millrace
