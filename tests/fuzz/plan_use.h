// Compiles plans over a dataset and builds batches from them, to use an index and files that passed
// their checks.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "server/kinds/coq/coq_dataset.h"

namespace millrace::fuzz {

/// Compiles a plan over `dataset` for each source, and builds and expands some batches. Returns the
/// first error; aborts if a batch comes out that cannot be expanded.
Status UseDataset(const std::shared_ptr<const CoqDataset>& dataset);

}  // namespace millrace::fuzz
