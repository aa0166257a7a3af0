#include "server/dataset/kinds/product_kinds.h"

#include <utility>

#include "server/dataset/coq/kind/coq_kind.h"
#include "server/dataset/graph/kind/graph_kind.h"
#include "server/dataset/python/kind/python_kind.h"
#include "server/dataset/records/kind/records_kind.h"
#include "server/pipeline/operations/stage_table.h"

namespace millrace {

// One line for each kind. A folder is of the first kind that recognises it.
DatasetKinds ProductKinds(std::shared_ptr<PluginRegistry> plugins) {
  return DatasetKinds({
      MakeGraphKind(),
      MakeRecordsKind(),
      MakeCoqKind(),
      MakePythonKind(std::move(plugins)),
  });
}

const StageTable& ProductStages() {
  static const StageTable table = MakeStageTable(ProductKinds());
  return table;
}

}  // namespace millrace
