#include "server/kinds/coq/tactic_table.h"

namespace millrace {

TacticTable::TacticTable(const DatasetIndex& index, const NodeLabels& labels,
                         std::uint32_t required_occurrence)
    : number_of_(index.tactics().size(), kNoRef) {
  std::vector<PlanTactic> met;
  for (std::uint32_t label = kNodeClasses; label < labels.size(); ++label) {
    const Slice steps = index.definitions()[labels.Definition(label)].steps;
    for (const StepRecord& step : index.steps().subspan(steps.first, steps.count)) {
      std::uint32_t& number = number_of_[step.tactic];
      if (number != kNoRef) {
        ++met[number].count;
      } else if (step.outcomes.count > 0) {
        number = static_cast<std::uint32_t>(met.size());
        met.push_back({step.tactic, index.outcomes()[step.outcomes.first].argument_count, 1});
      }
    }
  }
  for (const PlanTactic& tactic : met) {
    const bool kept = tactic.count >= required_occurrence;
    number_of_[tactic.record] = kept ? static_cast<std::uint32_t>(tactics_.size()) : kNoRef;
    if (kept) tactics_.push_back(tactic);
  }
}

}  // namespace millrace
