// The report of `millrace inspect` about a dataset's folder.
#pragma once

#include <filesystem>

#include "common/base/result.h"

namespace millrace::cli {

/// Prints a dataset's contents: files, nodes, edges, definitions, proof states, tactics. Builds the
/// index first if it is missing or does not fit. `index_file` may be empty: the index is then at
/// its usual place. `skip_bad`: an index that is built leaves out bad files. Errors are those of
/// OpenOrBuildIndex.
Status InspectDataset(const std::filesystem::path& dir, const std::filesystem::path& index_file,
                      bool skip_bad);

}  // namespace millrace::cli
