// Builds the index of a dataset's folder: reads every file once, on all cores, checks every index
// in it, and writes one index file. docs/formats/coq-index.md describes the file. If an older index
// knows a file and the file has not changed, its records are taken over and the file is not read.
//
// Memory is bounded: it holds the records of the files that threads are working on, and a few
// hundred bytes for each file. All other records wait in a nameless temporary file beside the
// index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "common/base/result.h"
#include "server/files/dataset_files.h"
#include "server/files/index_place.h"
#include "server/kinds/coq/index/dataset_index.h"
#include "server/source/progress.h"

namespace millrace {

struct BuildOptions {
  unsigned threads = 0;  // 0: one for each CPU that the process may use
  /// An older index of the folder. It must have passed DatasetIndex::Verify. nullptr: every file is
  /// read.
  std::shared_ptr<const DatasetIndex> older;
  /// If a stop is requested, the work ends with Cancelled before its next file, and nothing is
  /// replaced.
  std::stop_token stop;
  /// Leaves out bad files, and the files that need them, instead of failing.
  bool skip_bad = false;
  /// Called after each file, from several threads, but by only one at a time.
  std::function<void(const IndexProgress&)> progress;
  /// Called when the new index is on disk but has not yet replaced the old one. An error leaves the
  /// old one in place. For tests of interrupted builds.
  std::function<Status()> before_publish;
};

/// Cancelled if `options` have a stop request; otherwise ok.
inline Status CheckStop(const BuildOptions& options) { return CheckIndexStop(options.stop); }

/// Numbers of a build: its input and its output.
struct IndexReport {
  std::uint64_t files = 0;
  std::uint64_t unchanged_files = 0;  // part of `files`; their records came from the older index
  std::uint64_t left_out_files = 0;   // not part of `files`
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  std::uint64_t definitions = 0;
  std::uint64_t proof_states = 0;
  std::uint64_t clusters = 0;
  std::uint64_t tactics = 0;
  std::uint64_t dataset_bytes = 0;
  std::uint64_t index_bytes = 0;
  /// The largest memory of the process that was seen, without mapped files.
  std::uint64_t peak_memory_bytes = 0;
  double seconds = 0;
  unsigned threads = 0;

  double nodes_per_second() const { return seconds > 0 ? static_cast<double>(nodes) / seconds : 0; }
  /// Bytes of the index file per example. Proof states and definition clusters count as examples.
  double index_bytes_per_example() const {
    const std::uint64_t examples = proof_states + clusters;
    return examples > 0 ? static_cast<double>(index_bytes) / static_cast<double>(examples) : 0;
  }
};

/// Indexes `dir` into the file `index`, and replaces that file when the new index is complete.
/// Errors: DataLoss that names all bad files, which are also stored in `bad` if it is given;
/// NotFound, PermissionDenied or InvalidArgument for the folder; ResourceExhausted; Cancelled. With
/// skip_bad, DataLoss comes only if no file is left; otherwise the index names the files left out
/// (DatasetIndex::left_out). REQUIRES: nobody else builds this index file.
Result<IndexReport> BuildIndex(const std::filesystem::path& dir, const std::filesystem::path& index,
                               const BuildOptions& options, std::vector<BadFile>* bad = nullptr);

}  // namespace millrace
