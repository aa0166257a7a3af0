// Workers' data for the datasets that a plan needs.
//
// Free functions over facts; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// A worker's data under a dataset's id, from best to worst for a plan over that dataset.
enum class DataState : std::uint8_t {
  kSame,      // the plan's data
  kIndexing,  // data that it does not know yet
  kDiffers,   // other data
  kFailed,    // data that it could not open
  kAbsent,    // nothing: its configuration has no such dataset
};
DataState StateOf(const v1::WorkRequest& report, const PlanDataset& dataset);

/// The worst of the states of a plan's datasets: a worker serves the plan only with all of them.
DataState WorstDataState(const v1::WorkRequest& report, const PlanFacts& plan);

/// Why a worker lacks datasets of a plan, or how they are wrong: it names datasets that its
/// configuration lacks, or the first one that is damaged, is being indexed or differs. Empty if
/// nothing is missing.
std::string MissingDataWhy(const Worker& worker, const PlanFacts& plan);

/// "dataset a", "datasets a and b", "datasets a, b and c".
std::string NameDatasets(const PlanFacts& plan);

}  // namespace millrace
