// What `millrace inspect` says of a dataset's folder.
#pragma once

#include <filesystem>

#include "common/base/result.h"

namespace millrace::cli {

/// Prints what a dataset holds (files, nodes, edges, definitions, proof states, tactics), building
/// its index where that is missing or does not fit. `index_file` may be empty: where the index lies
/// by itself. `skip_bad`: an index that is built leaves out bad files. Fails as OpenOrBuildIndex
/// does.
Status InspectDataset(const std::filesystem::path& dir, const std::filesystem::path& index_file,
                      bool skip_bad);

}  // namespace millrace::cli
