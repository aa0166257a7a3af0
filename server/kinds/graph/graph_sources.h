// The sources of graph datasets, and the keys that they add to pipelines.
//
// Free functions; thread-safe.
#pragma once

#include <vector>

#include "server/source/source_table.h"
#include "server/source/stage.h"

namespace millrace {

/// `source: {roots: NAME}` and `source: {graphs: NAME}`.
SourceTable GraphSources();

/// `closure.stop_at`, `features`, `edge_features` and `targets`.
std::vector<AddedStage> GraphStages();

}  // namespace millrace
