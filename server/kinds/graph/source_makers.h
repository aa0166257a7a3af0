// Makes the sources of graph datasets, each in a file of its own.
//
// Free functions; thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/source/dataset.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {

/// REQUIRES: the dataset is a graph; the source's argument is a text.
Result<std::shared_ptr<const Source>> MakeRootSource(std::shared_ptr<const Dataset> dataset,
                                                     const PlanParts& parts);
Result<std::shared_ptr<const Source>> MakeSmallGraphSource(std::shared_ptr<const Dataset> dataset,
                                                           const PlanParts& parts);

/// InvalidArgument that names the existing lists.
Status NoList(const GraphDataset& dataset, std::string_view prefix, std::string_view name);

}  // namespace millrace
