#include "server/catalog/product_kinds.h"

#include <utility>

#include "server/kinds/coq/coq_kind.h"
#include "server/kinds/graph/graph_kind.h"
#include "server/kinds/python/python_kind.h"
#include "server/kinds/records/records_kind.h"
#include "server/kinds/tokens/tokens_kind.h"
#include "server/plan/stage_table.h"

namespace millrace {

// One line for each kind. A folder is of the first kind that recognises it; so tokens come before
// Coq, whose files end in .bin too.
DatasetKinds ProductKinds(std::shared_ptr<PluginRegistry> plugins) {
  return DatasetKinds({
      MakeGraphKind(),
      MakeRecordsKind(),
      MakeTokensKind(),
      MakeCoqKind(),
      MakePythonKind(std::move(plugins)),
  });
}

const StageTable& ProductStages() {
  static const StageTable table = MakeStageTable(ProductKinds());
  return table;
}

}  // namespace millrace
