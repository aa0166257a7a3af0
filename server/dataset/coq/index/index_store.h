// Where the index of a dataset lies, whether it still fits the files, and who builds it.
//
// The index of a folder DIR is DIR/.millrace.index, or, where DIR cannot be written, `index` in the
// folder of the cache that is named by the digest of DIR's real path; or the file that was asked
// for. It fits where it has the same files with the same sizes, inodes and times; files of which
// only inode or times differ are hashed, and where all are the same the index is renewed, not built
// again. Where some files have changed, only those are read; what the index says of the others goes
// over into the new one. One that leaves out bad files (BuildOptions::skip_bad) fits for as long as
// these are as they were. Of several processes one builds and the others wait for it (flock on the
// index's name +
// ".lock").
//
// Free functions, thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/coq/index/index_builder.h"

namespace millrace {

/// The name of an index in its dataset's folder.
inline constexpr const char* kIndexFileName = ".millrace.index";

struct IndexOptions {
  std::filesystem::path index_file;  // empty: found as said above
  std::filesystem::path cache_dir;   // empty: DefaultCacheDir()
  bool force = false;                // build even where the index fits, and read every file
  BuildOptions build;
  /// Held while an index is built, where given: several datasets may be opened at once, but each
  /// build uses all processors and the memory for that.
  std::mutex* one_build = nullptr;
  std::shared_ptr<Logger> logger;       // is told what is built, why, and who is waited for
  std::vector<BadFile>* bad = nullptr;  // receives the bad files of a build that failed
};

/// What became of a call of OpenOrBuildIndex.
struct IndexOutcome {
  std::filesystem::path file;
  bool built = false;  // else: found as it was, or renewed
  IndexReport report;  // of the build
};

/// $XDG_CACHE_HOME/millrace, or ~/.cache/millrace; empty where neither is set.
std::filesystem::path DefaultCacheDir();

/// Opens the index of a dataset's folder; builds it where it is missing, damaged or does not fit.
/// DataLoss naming all bad files, unless options.build.skip_bad leaves them out; NotFound,
/// PermissionDenied and InvalidArgument for the folder or the place of the index;
/// ResourceExhausted; Cancelled where options.build.stop was asked for, also while it waits for
/// another process. An index that was there stays whole until a new one is.
Result<std::shared_ptr<const DatasetIndex>> OpenOrBuildIndex(const std::filesystem::path& dir,
                                                             const IndexOptions& options,
                                                             IndexOutcome* outcome = nullptr);

/// Opens the index of a dataset's folder as it is, whether it fits or not. NotFound where there is
/// none; DataLoss where it is damaged.
Result<std::shared_ptr<const DatasetIndex>> FindIndex(const std::filesystem::path& dir,
                                                      const IndexOptions& options);

}  // namespace millrace
