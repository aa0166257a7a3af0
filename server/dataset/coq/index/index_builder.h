// Builds the index of a dataset's folder: reads every file once, on all cores, checks every index
// in it, and writes one index file. docs/index-format.md describes the file. Of files that an older
// index knows and that have not changed, its records are taken over, and the files are not read.
//
// Memory is bounded by the records of as many files as threads work at, and a few hundred bytes a
// file; the records of the others wait in a nameless temporary file beside the index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "common/base/result.h"
#include "common/system/mutex.h"
#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/dataset_files.h"

namespace millrace {

/// How far a build is.
struct IndexProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
};

/// Counts bytes done and tells of it. Thread-safe.
class ProgressCount {
 public:
  using Report = std::function<void(const IndexProgress&)>;

  /// `report` may be empty. It has to outlive the object, as all it refers to.
  ProgressCount(const Report& report, std::uint64_t bytes_total)
      : report_(report), now_{.bytes_done = 0, .bytes_total = bytes_total} {}

  void Add(std::uint64_t bytes) {
    MutexLock lock(mutex_);
    now_.bytes_done += bytes;
    if (report_) report_(now_);
  }

 private:
  const Report& report_;
  Mutex mutex_;
  IndexProgress now_ MILLRACE_GUARDED_BY(mutex_);
};

struct BuildOptions {
  unsigned threads = 0;  // 0: one for each CPU that the process may use
  /// An older index of the folder, whole (DatasetIndex::Verify); nullptr: every file is read.
  std::shared_ptr<const DatasetIndex> older;
  /// Asked for: the work ends with Cancelled before its next file, and nothing is replaced.
  std::stop_token stop;
  /// Leave out bad files and those that need one, instead of failing.
  bool skip_bad = false;
  /// Called after each file, from several threads, but one at a time.
  std::function<void(const IndexProgress&)> progress;
  /// Called when the new index is on disk and has not replaced the old one yet; an error leaves the
  /// old one in place. For tests of interrupted builds.
  std::function<Status()> before_publish;
};

/// Cancelled where `options` were asked to stop; ok otherwise.
inline Status CheckStop(const BuildOptions& options) {
  if (!options.stop.stop_requested()) return OkStatus();
  return Cancelled("stopped before it was done; an index that was there stays as it was");
}

/// What a build read and made.
struct IndexReport {
  std::uint64_t files = 0;
  std::uint64_t unchanged_files = 0;  // of those: taken over from the older index
  std::uint64_t left_out_files = 0;   // not among `files`
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  std::uint64_t definitions = 0;
  std::uint64_t proof_states = 0;
  std::uint64_t clusters = 0;
  std::uint64_t tactics = 0;
  std::uint64_t dataset_bytes = 0;
  std::uint64_t index_bytes = 0;
  /// The process's memory without mapped files, where it was seen largest.
  std::uint64_t peak_memory_bytes = 0;
  double seconds = 0;
  unsigned threads = 0;

  double nodes_per_second() const { return seconds > 0 ? static_cast<double>(nodes) / seconds : 0; }
  /// Of the index file; examples are proof states and definition clusters.
  double index_bytes_per_example() const {
    const std::uint64_t examples = proof_states + clusters;
    return examples > 0 ? static_cast<double>(index_bytes) / static_cast<double>(examples) : 0;
  }
};

/// Indexes `dir` into the file `index`, replacing it when the new one is whole. DataLoss naming all
/// bad files, which also go to `bad` where it is given; with skip_bad only where no file is left,
/// and else what was left out is in the index (DatasetIndex::left_out); NotFound, PermissionDenied,
/// InvalidArgument for the folder; ResourceExhausted; Cancelled. REQUIRES: nobody else builds this
/// index file.
Result<IndexReport> BuildIndex(const std::filesystem::path& dir, const std::filesystem::path& index,
                               const BuildOptions& options, std::vector<BadFile>* bad = nullptr);

}  // namespace millrace
