// Damaged files of a dataset, and the errors of plans that read them.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace millrace {

/// A file that is no longer the indexed one, or never was.
struct DamagedFile {
  static constexpr std::uint32_t kIndex = 0xFFFFFFFF;  // stands for the index itself

  std::uint32_t file = kIndex;  // the file's number in the dataset
  std::string name;             // name in the dataset; for the index, its path
  std::string what;             // the damage, described for people
};

/// Findings of CheckFiles that are new since its last call.
struct FileNews {
  std::vector<DamagedFile> damaged;
  std::vector<DamagedFile> replaced;  // replaced by another file; the mapped one stays valid
  std::vector<std::string> touched;   // names of files with new times but the same bytes
  bool verified = false;              // the last contents were compared with their digests now
};

/// DataLoss with `what` happened. It has the `exclude` line that would let the pipeline go on
/// without the files `needed`, which it does not exclude yet. `dataset`: the name that people use.
Status DamagedFilesStatus(const std::string& dataset, const std::string& what,
                          std::span<const std::string> excluded,
                          std::span<const std::string> needed);

/// DataLoss for a dataset whose index is damaged: no plan over it can be served.
Status DamagedIndexStatus(const std::string& dataset, const DamagedFile& index);

}  // namespace millrace
