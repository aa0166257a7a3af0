// The plan library behind the interfaces that dispatcher and workers use.
#pragma once

#include <memory>

#include "server/dispatcher/service/plan_compiler.h"
#include "server/plan/columns/kept_columns.h"
#include "server/plan/facts/plan_facts.h"
#include "server/plan/plan_library.h"
#include "server/plugin/plugin_registry.h"
#include "server/worker/service/worker_service.h"

namespace millrace {

/// The state of a dataset for a worker's report and a dispatcher's status.
v1::DatasetState ToProto(const DatasetStatus& status);

/// Thread-safe. Both results keep the library alive. `plugins`: the plugins of the library's
/// sources; null if there are no plugins.
std::shared_ptr<PlanProvider> MakePlanProvider(std::shared_ptr<PlanLibrary> library,
                                               std::shared_ptr<PluginRegistry> plugins = nullptr);
/// `keep_plans`: whether a plan lives as long as its facts, so that a worker in the same process
/// has it at once. Otherwise a plan is dropped after it has been compiled, because a dispatcher
/// builds no batches. `columns`: the library's provider of columns, which has workers measure them;
/// null: another provider.
std::shared_ptr<PlanCompiler> MakePlanCompiler(std::shared_ptr<PlanLibrary> library,
                                               bool keep_plans,
                                               std::shared_ptr<KeptColumns> columns = nullptr);

}  // namespace millrace
