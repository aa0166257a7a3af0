// Finds the index of a dataset, checks whether it still fits the files, and builds it if necessary.
//
// index_place.h says where it is.
//
// An index fits if it has the same files with the same sizes, inodes and times. If only the inode
// or the times of a file differ, the file is hashed. If the hashes are the same, the index is
// renewed, not built again. If some files have changed, only these are read; the records of the
// other files are taken over into the new index. An index that leaves out bad files
// (BuildOptions::skip_bad) fits as long as these files have not changed.
//
// Free functions, thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "server/files/index_place.h"
#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/index/index_builder.h"

namespace millrace {

struct IndexOptions {
  std::filesystem::path index_file;  // empty: found as described above
  std::filesystem::path cache_dir;   // empty: DefaultCacheDir()
  bool force = false;                // build even if the index fits, and read every file
  BuildOptions build;
  /// Held while an index is built, if it is given. Several datasets may be opened at once, but each
  /// build uses all processors and the memory for that.
  std::mutex* one_build = nullptr;
  std::shared_ptr<Logger> logger;       // logs builds with their reasons, and waiting
  std::vector<BadFile>* bad = nullptr;  // receives the bad files of a failed build
};

/// The outcome of a call of OpenOrBuildIndex.
struct CoqIndexOutcome {
  std::filesystem::path file;
  bool built = false;  // false: an index was found as it was, or renewed
  IndexReport report;  // report of the build, if there was one
};

/// Opens the index of a dataset's folder. Builds it if it is missing, damaged or does not fit.
/// DataLoss that names all bad files, unless options.build.skip_bad leaves them out; NotFound,
/// PermissionDenied or InvalidArgument for the folder or the place of the index; ResourceExhausted;
/// Cancelled if options.build.stop was requested, also while waiting for another process. An
/// existing index stays whole until the new one is complete.
Result<std::shared_ptr<const DatasetIndex>> OpenOrBuildIndex(const std::filesystem::path& dir,
                                                             const IndexOptions& options,
                                                             CoqIndexOutcome* outcome = nullptr);

/// Opens the index of a dataset's folder as it is, whether it fits or not. NotFound if there is no
/// index; DataLoss if it is damaged.
Result<std::shared_ptr<const DatasetIndex>> FindIndex(const std::filesystem::path& dir,
                                                      const IndexOptions& options);

}  // namespace millrace
