#include "server/kinds/coq/example_table.h"

#include <algorithm>
#include <limits>

namespace millrace {
namespace {

/// Calls visit(step) for each step of the definition that has outcomes and whose tactic the plan
/// has.
template <class Visit>
void ForEachStep(const DatasetIndex& index, const TacticTable& tactics, std::uint32_t definition,
                 const Visit& visit) {
  for (const StepRecord& step : Sub(index.steps(), index.definitions()[definition].steps)) {
    if (step.outcomes.count > 0 && tactics.Number(step.tactic) != kNoRef) visit(step);
  }
}

}  // namespace

ExampleTable::ExampleTable(const DatasetIndex& index, const NodeLabels& labels,
                           const TacticTable& tactics, bool restrict_to_spine,
                           std::vector<std::uint32_t>* definitions) {
  // First pass: counts the examples and notes where they begin. Most plans need no more than this.
  for (std::uint32_t label = kNodeClasses; label < labels.size(); ++label) {
    const std::uint32_t definition = labels.Definition(label);
    std::uint64_t examples = 0;
    std::uint32_t first_outcome = 0;
    ForEachStep(index, tactics, definition, [&](const StepRecord& step) {
      if (examples == 0) first_outcome = step.outcomes.first;
      examples += step.outcomes.count;
    });
    if (examples == 0) continue;
    if (definitions != nullptr) definitions->push_back(definition);
    // first_outcome is replaced by its rank below, once all outcomes are known.
    if (restrict_to_spine) runs_.push_back({static_cast<std::uint32_t>(size_), first_outcome});
    size_ += examples;
  }
  all_ = !restrict_to_spine && size_ == index.outcomes().size();
  if (all_) return;
  kept_ = RankedBitmap(index.outcomes().size());
  for (std::uint32_t label = kNodeClasses; label < labels.size(); ++label) {
    ForEachStep(index, tactics, labels.Definition(label), [&](const StepRecord& step) {
      for (std::uint32_t i = 0; i < step.outcomes.count; ++i) kept_.Set(step.outcomes.first + i);
    });
  }
  kept_.Seal();
  for (Run& run : runs_) run.first_rank = static_cast<std::uint32_t>(kept_.Rank(run.first_rank));
  runs_.shrink_to_fit();
}

std::size_t ExampleTable::RunOf(std::uint64_t example) const {
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), example,
                       [](std::uint64_t e, const Run& r) { return e < r.first_example; });
  return static_cast<std::size_t>(after - runs_.begin()) - 1;
}

std::uint32_t ExampleTable::Outcome(std::uint64_t example) const {
  if (all_) return static_cast<std::uint32_t>(example);
  std::uint64_t rank = example;
  if (!runs_.empty()) {
    const Run& run = runs_[RunOf(example)];
    rank = run.first_rank + (example - run.first_example);
  }
  return static_cast<std::uint32_t>(kept_.Select(rank));
}

ExampleTable::Walk::Walk(const ExampleTable& table, std::uint64_t first)
    : table_(table), example_(first), jump_(first), outcome_(0) {}

std::uint32_t ExampleTable::Walk::Next() {
  if (table_.all_) return static_cast<std::uint32_t>(example_++);
  if (example_ == jump_) {
    outcome_ = table_.Outcome(example_);
    jump_ = std::numeric_limits<std::uint64_t>::max();
    if (!table_.runs_.empty()) {
      const std::size_t next = table_.RunOf(example_) + 1;
      if (next < table_.runs_.size()) jump_ = table_.runs_[next].first_example;
    }
  } else {
    outcome_ = table_.kept_.Next(outcome_ + 1);
  }
  ++example_;
  return static_cast<std::uint32_t>(outcome_);
}

}  // namespace millrace
