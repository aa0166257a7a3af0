#include "server/plan/order/selections.h"

#include <utility>

#include <fmt/core.h>

#include "server/source/mix_parts.h"
#include "server/source/order_parts.h"

namespace millrace {
namespace {

Result<std::shared_ptr<const Selection>> SelectFrom(const Source& source, const PlanParts& parts) {
  // Split and filter have selected the documents of which rows are packed; all rows are selected.
  const bool rows = source.packs() != nullptr;
  MILLRACE_ASSIGN_OR_RETURN(
      Selection selected,
      Selection::Make(source, rows ? SplitPart() : parts.Get<SplitPart>(),
                      rows ? FilterPart() : parts.Get<FilterPart>()));
  return std::make_shared<const Selection>(std::move(selected));
}

}  // namespace

Result<Selections> Selections::Make(std::shared_ptr<const Source> source, const PlanParts& parts) {
  Selections selections(source);
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

std::optional<OrderRow> Selections::RowOf(ExampleId example) const {
  const Branch& branch = BranchOf(example);
  const auto row = branch.selection->RankOf(ExampleId(example.value() - branch.first));
  if (!row) return std::nullopt;
  return OrderRow{*row, static_cast<std::uint32_t>(&branch - of_.data())};
}

std::uint32_t Selections::SplitLabel(ExampleId example) const {
  const Branch& branch = BranchOf(example);
  return branch.selection->split().Of(*branch.source, ExampleId(example.value() - branch.first));
}

}  // namespace millrace
