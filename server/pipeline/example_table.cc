#include "server/pipeline/example_table.h"

#include <algorithm>

namespace millrace {

ExampleTable::ExampleTable(const DatasetIndex& index, const NodeLabels& labels,
                           const TacticTable& tactics, bool restrict_to_spine)
    : kept_(index.outcomes().size()) {
  struct Count {
    std::uint64_t first_outcome;
    std::uint64_t examples;
  };
  std::vector<Count> counts;
  for (std::uint32_t label = kNodeClasses; label < labels.size(); ++label) {
    const std::uint32_t definition = labels.Definition(label);
    const Slice steps = index.definitions()[definition].steps;
    Count count{0, 0};
    for (const StepRecord& step : index.steps().subspan(steps.first, steps.count)) {
      if (tactics.Number(step.tactic) == kNone) continue;
      for (std::uint32_t i = 0; i < step.outcomes.count; ++i) kept_.Set(step.outcomes.first + i);
      if (count.examples == 0) count.first_outcome = step.outcomes.first;
      count.examples += step.outcomes.count;
    }
    if (count.examples == 0) continue;
    definitions_.push_back(definition);
    counts.push_back(count);
    size_ += count.examples;
  }
  kept_.Seal();
  all_ = !restrict_to_spine && size_ == index.outcomes().size();
  if (all_) {
    kept_ = RankedBitmap();
  } else if (restrict_to_spine) {
    std::uint64_t first_example = 0;
    runs_.reserve(counts.size());
    for (const Count& count : counts) {
      runs_.push_back({first_example, kept_.Rank(count.first_outcome)});
      first_example += count.examples;
    }
  }
}

std::uint32_t ExampleTable::Outcome(std::uint64_t example) const {
  if (all_) return static_cast<std::uint32_t>(example);
  std::uint64_t rank = example;
  if (!runs_.empty()) {
    const auto run =
        std::upper_bound(runs_.begin(), runs_.end(), example,
                         [](std::uint64_t e, const Run& r) { return e < r.first_example; }) -
        1;
    rank = run->first_rank + (example - run->first_example);
  }
  return static_cast<std::uint32_t>(kept_.Select(rank));
}

}  // namespace millrace
