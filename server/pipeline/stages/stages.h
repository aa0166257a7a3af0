// Every stage of the product, each in a file of its own; stage_table.cc puts them in order.
#pragma once

#include "server/pipeline/stage.h"

namespace millrace {

StageType SourceStage();
StageType SplitStage();
StageType FilterStage();
StageType ShuffleStage();
StageType ClosureStage();
StageType EdgesStage();
StageType BatchStage();
StageType FieldsStage();
StageType ExcludeStage();

}  // namespace millrace
