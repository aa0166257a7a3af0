// The stage table: the stages in the order in which they apply, one line each.

#include "server/pipeline/stages/stages.h"

namespace millrace {

const StageTable& StageTable::Default() {
  static const StageTable table({
      SourceStage(),
      SplitStage(),
      FilterStage(),
      ShuffleStage(),
      ClosureStage(),
      EdgesStage(),
      BatchStage(),
      FieldsStage(),
      ExcludeStage(),
  });
  return table;
}

}  // namespace millrace
