// Finds the index of a records dataset, checks whether it still fits the files, and builds it if
// necessary. server/source/index_store.h says when an index fits, and what is read to build one.
//
// A file with records whose data have a wrong checksum is bad, but it is in the index: pipelines
// with `on_error: drop` read the others. If an earlier index had it with the same frames, it keeps
// its earlier digest, and so the dataset keeps its digest too.
//
// Free functions, thread-safe.
#pragma once

#include <filesystem>
#include <memory>

#include "common/base/result.h"
#include "server/kinds/records/index/records_index.h"
#include "server/source/dataset_kind.h"
#include "server/source/index_store.h"

namespace millrace {

/// A report of the work.
struct RecordsIndexOutcome : IndexOutcome {
  /// The index, if only data of records are bad.
  std::shared_ptr<const RecordsIndex> with_damage = nullptr;
};

/// The index of a dataset's folder. DataLoss that names all bad files, unless options.skip_bad
/// leaves them out; if they are bad in single records only, outcome.with_damage has the index;
/// NotFound, PermissionDenied or InvalidArgument for the folder or the place of the index;
/// Cancelled.
Result<std::shared_ptr<const RecordsIndex>> OpenOrBuildRecordsIndex(
    const std::filesystem::path& dir, const DatasetOpenOptions& options,
    RecordsIndexOutcome& outcome);

/// The index as it is, whether it fits or not. NotFound, with the command that builds it.
Result<std::shared_ptr<const RecordsIndex>> FindRecordsIndex(const std::filesystem::path& dir,
                                                             const DatasetOpenOptions& options);

/// Compares all files with their digests in the index. DataLoss that names each file that differs,
/// has damaged records, is gone, or is not in the index.
Status VerifyRecords(const std::filesystem::path& dir, const RecordsIndex& index,
                     const DatasetOpenOptions& options);

}  // namespace millrace
