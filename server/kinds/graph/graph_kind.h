// Graph datasets as a kind (dataset_kind.h).
//
// Free functions; thread-safe.
#pragma once

#include <memory>

#include "server/source/dataset_kind.h"

namespace millrace {

std::shared_ptr<const DatasetKind> MakeGraphKind();

}  // namespace millrace
