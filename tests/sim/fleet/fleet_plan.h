// The plans of a simulated fleet: one for each job, so that no two jobs share batches. A plan has
// more batches than any simulation takes, and compiling it costs nothing.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/ids.h"
#include "millrace/v1/common.pb.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/plan/facts/plan_facts.h"
#include "tests/sim/fleet/fleet_setup.h"

namespace millrace::sim {

/// The id of the dataset that all plans read, and what every host reports of it.
inline constexpr const char* kFleetDataset = "stdlib";
v1::DatasetState FleetDataset();

/// The pipeline of a job: of twins the one that they share.
v1::PipelineText FleetPipeline(const FleetSetup& setup, std::size_t job);
/// The job whose plan has this fingerprint, as text.
std::uint64_t JobOfPlan(const std::string& fingerprint);
/// The plan that a pipeline of FleetPipeline compiles to.
std::shared_ptr<const PlanFacts> CompileFleetPlan(const v1::PipelineText& pipeline);

}  // namespace millrace::sim
