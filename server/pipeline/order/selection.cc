#include "server/pipeline/order/selection.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "server/pipeline/order/filters.h"

namespace millrace {
namespace {

/// Number of examples whose columns are read at once.
constexpr std::uint64_t kChunk = 1024;

Result<std::vector<bool>> TakenLabels(const PlanDraft& draft, std::uint32_t labels) {
  std::vector<bool> taken(labels, !draft.take.has_value());
  if (!draft.take) return taken;
  for (const std::int64_t label : *draft.take) {
    if (label < 0 || label >= labels) {
      return InvalidArgument(
          fmt::format("split.take: expected labels from 0 to {}, got {}", labels - 1, label));
    }
    taken[static_cast<std::size_t>(label)] = true;
  }
  return taken;
}

}  // namespace

Result<Selection> Selection::Make(const Source& source, const PlanDraft& draft) {
  MILLRACE_ASSIGN_OR_RETURN(SplitLabels split, SplitLabels::Make(source, draft.split));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<bool> taken, TakenLabels(draft, split.size()));
  const std::uint64_t examples = source.examples();
  Selection selection(std::move(split));
  PlanCounts& counts = selection.counts_;
  counts.source_examples = examples;
  counts.examples_per_split.assign(taken.size(), 0);
  WantedColumns wanted;
  selection.split_.AddColumns(wanted);
  AddColumnsOfFilters(draft, wanted);
  if (!wanted.any() && draft.predicates.empty()) {
    // Every example has label 0.
    counts.examples_per_split[0] = examples;
    counts.selected = taken[0] ? examples : 0;
    selection.all_ = counts.selected == examples;
    if (!selection.all_) {
      selection.selected_ = RankedBitmap(examples);
      selection.selected_.Seal();
    }
    return selection;
  }
  RankedBitmap selected(examples);
  SplitLabels::Reader label_of(selection.split_);
  std::vector<ExampleColumns> columns(std::min(examples, kChunk));
  for (std::uint64_t first = 0; first < examples; first += kChunk) {
    const std::uint64_t count = std::min(kChunk, examples - first);
    source.ReadColumns(ExampleId(first), wanted, std::span(columns).first(count));
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t label = label_of.Of(columns[i]);
      ++counts.examples_per_split[label];
      if (!taken[label]) continue;
      if (PassesFilters(source, draft, ExampleId(first + i), columns[i])) {
        selected.Set(first + i);
      } else {
        ++counts.filtered;
      }
    }
  }
  selected.Seal();
  counts.selected = selected.count();
  selection.all_ = counts.selected == examples;
  if (!selection.all_) selection.selected_ = std::move(selected);
  return selection;
}

std::optional<std::uint64_t> Selection::RankOf(ExampleId example) const {
  if (example.value() >= counts_.source_examples) return std::nullopt;
  if (all_) return example.value();
  if (!selected_.Test(example.value())) return std::nullopt;
  return selected_.Rank(example.value());
}

}  // namespace millrace
