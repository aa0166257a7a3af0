// Providers of a plan's measured columns.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "server/plan/columns/measure.h"
#include "server/plan/columns/measured_source.h"
#include "server/source/source.h"

namespace millrace {

/// Columns that a plan reads and its source does not have.
struct ColumnRequest {
  std::string dataset_id;  // for people
  std::vector<std::filesystem::path>
      folders;                            // that may hold them; the first writable one gets them
  Digest128 operations;                   // that build the examples, a user's code too
  std::shared_ptr<const Source> source;   // that can be measured
  std::vector<MeasurableColumn> columns;  // at least one
  std::vector<std::string> excluded_files = {};  // the source does not have their examples whole
  /// Examples, ascending, that have no value if building them fails. They are in `operations`.
  std::vector<std::uint64_t> excluded_examples = {};
};

/// Thread-safe.
class ColumnProvider {
 public:
  virtual ~ColumnProvider() = default;
  /// May take long, if the columns have to be measured. Unavailable if they are not available now,
  /// for example because other processes measure them. FailedPrecondition that names the excluded
  /// files if columns would have to be measured without them. Errors of Measurer::Measure;
  /// Cancelled.
  virtual Result<MeasuredColumns> Get(const ColumnRequest& request) = 0;
};

struct LocalColumnsOptions {
  unsigned threads = 0;  // that measure; 0: one for each CPU of the process
  std::stop_token stop;  // ends measuring with Cancelled
  /// Called while examples are built, from several threads, but by only one at a time.
  std::function<void(const std::string& dataset_id, std::uint64_t done, std::uint64_t all)>
      progress;
};

/// Takes columns from files, and measures columns without files in this process. One request is
/// measured at a time.
class LocalColumns final : public ColumnProvider {
 public:
  LocalColumns(LocalColumnsOptions options, std::shared_ptr<Logger> logger)
      : options_(std::move(options)), logger_(std::move(logger)) {}

  Result<MeasuredColumns> Get(const ColumnRequest& request) override;

 private:
  /// Measures `columns`, and writes their files if a folder can be written.
  Status MeasureAll(const ColumnRequest& request, const std::vector<MeasurableColumn>& columns,
                    MeasuredColumns& values) const;

  const LocalColumnsOptions options_;
  const std::shared_ptr<Logger> logger_;
  std::mutex one_at_a_time_;
};

}  // namespace millrace
