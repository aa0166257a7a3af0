// Roots with neighbours that are drawn: `source: {roots: NAME}` with `closure: {kind: neighbors}`.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/gathered_arrays.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {

/// `list`: the nodes; nullptr for every node. InvalidArgument, beginning with the key, if the parts
/// do not suit the dataset. The dataset has to outlive the list.
Result<std::shared_ptr<const Source>> MakeNeighborSource(
    std::shared_ptr<const GraphDataset> dataset, const PlanParts& parts, const GraphArray* list,
    const ExampleList& examples);

}  // namespace millrace
