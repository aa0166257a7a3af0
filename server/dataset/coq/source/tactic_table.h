// Tactics of a plan: numbered when first met with an outcome, in the order of the plan's
// definitions; those met fewer than `required_tactic_occurrence` times are left out.
//
// Immutable; thread-safe. Refers to the index, which has to outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/coq/source/node_labels.h"

namespace millrace {

/// One tactic of a plan.
struct PlanTactic {
  std::uint32_t record;     // number in the index
  std::uint32_t arguments;  // of the first outcome
  std::uint64_t count;      // steps that use it, from the first with an outcome on
};

class TacticTable {
 public:
  TacticTable(const DatasetIndex& index, const NodeLabels& labels,
              std::uint32_t required_occurrence);

  std::span<const PlanTactic> tactics() const { return tactics_; }
  /// The plan's number of a tactic of the index; kNone where the plan has it not.
  std::uint32_t Number(std::uint32_t record) const { return number_of_[record]; }

 private:
  std::vector<PlanTactic> tactics_;
  std::vector<std::uint32_t> number_of_;
};

}  // namespace millrace
