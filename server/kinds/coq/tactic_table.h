// Tactics of a plan. They are numbered when they are first met with an outcome, in the order of the
// plan's definitions. Tactics that are met fewer than `required_tactic_occurrence` times are left
// out.
//
// Immutable; thread-safe. Refers to the index, which must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/node_labels.h"

namespace millrace {

/// One tactic of a plan.
struct PlanTactic {
  std::uint32_t record;     // number in the index
  std::uint32_t arguments;  // number of arguments of its first outcome
  std::uint64_t count;      // steps that use it, beginning with the first that has an outcome
};

class TacticTable {
 public:
  TacticTable(const DatasetIndex& index, const NodeLabels& labels,
              std::uint32_t required_occurrence);

  std::span<const PlanTactic> tactics() const { return tactics_; }
  /// The plan's number for a tactic of the index; kNoRef if the plan does not have the tactic.
  std::uint32_t Number(std::uint32_t record) const { return number_of_[record]; }

 private:
  std::vector<PlanTactic> tactics_;
  std::vector<std::uint32_t> number_of_;
};

}  // namespace millrace
