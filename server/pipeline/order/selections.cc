#include "server/pipeline/order/selections.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "server/pipeline/graph/mix_parts.h"
#include "server/pipeline/order/order_parts.h"

namespace millrace {
namespace {

Result<std::shared_ptr<const Selection>> SelectFrom(const Source& source, const PlanParts& parts) {
  MILLRACE_ASSIGN_OR_RETURN(
      Selection selected, Selection::Make(source, parts.Get<SplitPart>(), parts.Get<FilterPart>()));
  return std::make_shared<const Selection>(std::move(selected));
}

}  // namespace

Result<Selections> Selections::Make(std::shared_ptr<const Source> source, const PlanParts& parts) {
  Selections selections;
  if (source->branches().empty()) {
    MILLRACE_ASSIGN_OR_RETURN(auto selection, SelectFrom(*source, parts));
    selections.counts_ = selection->counts();
    selections.of_.push_back({std::move(source), std::move(selection)});
    return selections;
  }
  const std::vector<BranchPart>& branches = parts.Get<BranchesPart>().branches;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const SourceBranch& branch = source->branches()[i];
    auto selection = SelectFrom(*branch.source, branches[i].parts);
    if (!selection.ok()) {
      return AtKey(branches[i].parts, selection.status())
          .WithContext(fmt::format("branch {}", branch.name));
    }
    const PlanCounts& counts = (*selection)->counts();
    selections.counts_.source_examples += counts.source_examples;
    selections.counts_.filtered += counts.filtered;
    selections.counts_.selected += counts.selected;
    selections.of_.push_back({branch.source, *std::move(selection), branch.first});
  }
  return selections;
}

std::size_t Selections::BranchOf(ExampleId example) const {
  const auto after =
      std::upper_bound(of_.begin(), of_.end(), example.value(),
                       [](std::uint64_t id, const Branch& branch) { return id < branch.first; });
  return static_cast<std::size_t>(after - of_.begin()) - 1;
}

std::optional<OrderRow> Selections::RowOf(ExampleId example) const {
  const std::size_t branch = BranchOf(example);
  const auto row = of_[branch].selection->RankOf(ExampleId(example.value() - of_[branch].first));
  if (!row) return std::nullopt;
  return OrderRow{*row, static_cast<std::uint32_t>(branch)};
}

std::uint32_t Selections::SplitLabel(ExampleId example) const {
  const Branch& branch = of_[BranchOf(example)];
  return branch.selection->split().Of(*branch.source, ExampleId(example.value() - branch.first));
}

}  // namespace millrace
