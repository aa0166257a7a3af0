// Files of a dataset that are damaged, and what a plan is told that reads them.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace millrace {

/// A file that is no longer, or was never, what the index says of it.
struct DamagedFile {
  static constexpr std::uint32_t kIndex = 0xFFFFFFFF;  // no file: the index itself

  std::uint32_t file = kIndex;  // number in the dataset
  std::string name;             // in the dataset; path of the index
  std::string what;             // happened, for a person
};

/// What CheckFiles found and had not found before.
struct FileNews {
  std::vector<DamagedFile> damaged;
  std::vector<DamagedFile> replaced;  // by another file; what is mapped stays right
  std::vector<std::string> touched;   // names; their times are others, their bytes are not
};

/// DataLoss with `what` happened and the `exclude` line that would let the pipeline go on without
/// the files `needed`, which it does not exclude yet. `dataset`: as a person calls it.
Status DamagedFilesStatus(const std::string& dataset, const std::string& what,
                          std::span<const std::string> excluded,
                          std::span<const std::string> needed);

/// DataLoss for a dataset whose index is damaged: no plan can be served.
Status DamagedIndexStatus(const std::string& dataset, const DamagedFile& index);

}  // namespace millrace
