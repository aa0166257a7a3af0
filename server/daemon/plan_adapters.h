// The plan library as dispatcher and workers want to see it.
#pragma once

#include <memory>

#include "server/dispatcher/machine/plan_facts.h"
#include "server/dispatcher/service/plan_compiler.h"
#include "server/pipeline/plan_library.h"
#include "server/worker/service/worker_service.h"

namespace millrace {

/// What the worker's report and the dispatcher's status say of a dataset.
v1::DatasetState ToProto(const DatasetStatus& status);

/// Thread-safe. Both keep the library alive.
std::shared_ptr<PlanProvider> MakePlanProvider(std::shared_ptr<PlanLibrary> library);
/// `keep_plans`: a plan lives as long as its facts, so that a worker of the same process has it at
/// once; else it is dropped when it is compiled, since a dispatcher builds no batch.
std::shared_ptr<PlanCompiler> MakePlanCompiler(std::shared_ptr<PlanLibrary> library,
                                               bool keep_plans);

}  // namespace millrace
