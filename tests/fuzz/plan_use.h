// Compiles plans over a dataset and builds batches of them: what becomes of an index and of files
// that got through their checks.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "server/dataset/coq/dataset.h"

namespace millrace::fuzz {

/// For each source, compiles a plan over `dataset` and builds and expands some batches. The first
/// error; aborts where a batch comes out that cannot be expanded.
Status UseDataset(const std::shared_ptr<const Dataset>& dataset);

}  // namespace millrace::fuzz
