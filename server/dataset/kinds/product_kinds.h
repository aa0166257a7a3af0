// The kinds of datasets that this product knows.
//
// Free functions; thread-safe.
#pragma once

#include "server/dataset/dataset_kind.h"
#include "server/pipeline/graph/stage.h"

namespace millrace {

DatasetKinds ProductKinds();

/// The stages of pipelines over datasets of these kinds.
const StageTable& ProductStages();

}  // namespace millrace
