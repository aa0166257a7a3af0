// The stage table. A new stage is a file in this folder that defines a function like those below,
// and one line here.

#include "server/pipeline/graph/stage.h"

namespace millrace {

// Listed in the order in which they apply.
#define MILLRACE_STAGES(STAGE) \
  STAGE(SourceStage)           \
  STAGE(SplitStage)            \
  STAGE(FilterStage)           \
  STAGE(ShuffleStage)          \
  STAGE(ClosureStage)          \
  STAGE(EdgesStage)            \
  STAGE(BatchStage)            \
  STAGE(FieldsStage)           \
  STAGE(ExcludeStage)

#define MILLRACE_DECLARE(stage) StageType stage();
MILLRACE_STAGES(MILLRACE_DECLARE)
#undef MILLRACE_DECLARE

const StageTable& StageTable::Default() {
#define MILLRACE_ENTRY(stage) stage(),
  static const StageTable table({MILLRACE_STAGES(MILLRACE_ENTRY)});
#undef MILLRACE_ENTRY
  return table;
}

}  // namespace millrace
