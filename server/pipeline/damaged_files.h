// What a plan is told that reads files which are damaged.
//
// Free functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/dataset.h"

namespace millrace {

/// DataLoss with `what` happened and the `exclude` line that would let the pipeline go on without
/// the files `needed`, which it does not exclude yet. `dataset`: as a person calls it.
Status DamagedFilesStatus(const std::string& dataset, const std::string& what,
                          std::span<const std::string> excluded,
                          std::span<const std::string> needed);

/// DataLoss for a dataset whose index is damaged: no plan can be served.
Status DamagedIndexStatus(const std::string& dataset, const DamagedFile& index);

}  // namespace millrace
