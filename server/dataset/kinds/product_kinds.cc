#include "server/dataset/kinds/product_kinds.h"

#include "server/dataset/coq/kind/coq_kind.h"
#include "server/dataset/graph/kind/graph_kind.h"
#include "server/pipeline/operations/stage_table.h"

namespace millrace {

// One line for each kind. A folder is of the first kind that recognises it.
DatasetKinds ProductKinds() {
  return DatasetKinds({
      MakeGraphKind(),
      MakeCoqKind(),
  });
}

const StageTable& ProductStages() {
  static const StageTable table = MakeStageTable(ProductKinds());
  return table;
}

}  // namespace millrace
