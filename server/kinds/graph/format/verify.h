// Checks whether the contents of the files of a graph dataset fit graph.json.
//
// Free functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "common/base/result.h"
#include "server/files/dataset_files.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/format/verified_files.h"

namespace millrace {

struct VerifyGraphOptions {
  unsigned threads = 0;  // 0: one for each CPU that the process may use
  std::stop_token stop;
  /// The remembered files; files found right are added. May be nullptr.
  VerifiedFiles* verified = nullptr;
  /// The memory for a copy of each file, by its place in files(); empty: no copies. The copies are
  /// compared then, so a file may change meanwhile as long as its copy is right.
  std::vector<std::span<std::byte>> copies;
  /// Leaves out files that are remembered as right.
  bool trust_verified = false;
  /// Called with how many bytes were hashed since, from several threads, but by only one at a time.
  /// May be empty.
  std::function<void(std::uint64_t bytes)> progress;
};

/// Bytes of all files of arrays.
std::uint64_t GraphBytes(const GraphDataset& dataset);

/// Hashes the files to which the dataset's paths lead now, each from start to end, and compares
/// them with graph.json. OK, or DataLoss that names each file that differs, with its arrays (also
/// stored in `bad`, if it is given), or Cancelled.
Status VerifyGraph(const GraphDataset& dataset, const VerifyGraphOptions& options,
                   std::vector<BadFile>* bad = nullptr);

}  // namespace millrace
