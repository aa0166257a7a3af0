// The table of all stages that pipelines can have.
#pragma once

#include "server/source/dataset_kind.h"
#include "server/source/stage.h"

namespace millrace {

/// The stages of this folder, and the sources, stages and keys of the kinds.
StageTable MakeStageTable(const DatasetKinds& kinds);

}  // namespace millrace
