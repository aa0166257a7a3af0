#include "server/pipeline/selection.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "server/pipeline/filters.h"

namespace millrace {
namespace {

using Labeller = std::function<std::uint32_t(ExampleId)>;

/// The label of every example, asked for in order of their ids.
Result<Labeller> MakeLabeller(const Source& source, const SplitOptions& split) {
  switch (split.method) {
    case SplitMethod::kHash: {
      MILLRACE_ASSIGN_OR_RETURN(HashSplit hash, HashSplit::Create(split));
      // Neighbours tend to have one identity: hash it once.
      return Labeller([&source, hash = std::move(hash), known = std::optional<std::uint64_t>(),
                       label = std::uint32_t{0}](ExampleId id) mutable {
        const std::optional<std::uint64_t> identity = source.SplitIdentity(id);
        if (identity != known) label = identity ? hash.Label(*identity) : 0;
        known = identity;
        return label;
      });
    }
    case SplitMethod::kFilePrefix: {
      MILLRACE_ASSIGN_OR_RETURN(std::vector<std::uint32_t> labels, source.FileLabels(split));
      return Labeller(
          [&source, labels = std::move(labels)](ExampleId id) { return labels[source.File(id)]; });
    }
    case SplitMethod::kDisabled:
      break;
  }
  return Labeller([](ExampleId) { return 0; });
}

Result<std::vector<bool>> TakenLabels(const PlanDraft& draft) {
  const std::uint32_t labels = draft.split.labels();
  if (labels > kMaxSplitLabels) {
    return InvalidArgument(
        fmt::format("split: expected at most {} parts, got {}", kMaxSplitLabels, labels));
  }
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
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<bool> taken, TakenLabels(draft));
  MILLRACE_ASSIGN_OR_RETURN(const Labeller label_of, MakeLabeller(source, draft.split));
  const std::uint64_t examples = source.examples();
  Selection selection;
  PlanCounts& counts = selection.counts_;
  counts.source_examples = examples;
  counts.examples_per_split.assign(taken.size(), 0);
  if (taken.size() > 1) selection.labels_.resize(examples);
  RankedBitmap selected(examples);
  for (std::uint64_t e = 0; e < examples; ++e) {
    const std::uint32_t label = label_of(ExampleId(e));
    ++counts.examples_per_split[label];
    if (taken.size() > 1) selection.labels_[e] = static_cast<std::uint8_t>(label);
    if (!taken[label]) continue;
    if (PassesFilters(source, draft, ExampleId(e))) {
      selected.Set(e);
    } else {
      ++counts.filtered;
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
