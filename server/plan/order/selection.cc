#include "server/plan/order/selection.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "server/plan/order/filters.h"

namespace millrace {
namespace {

/// Number of examples whose columns are read at once.
constexpr std::uint64_t kChunk = 1024;

Result<std::vector<bool>> TakenLabels(const SplitPart& split, std::uint32_t labels) {
  std::vector<bool> taken(labels, !split.take.has_value());
  if (!split.take) return taken;
  for (const std::int64_t label : *split.take) {
    if (label < 0 || label >= labels) {
      return InvalidArgument(
          fmt::format("split.take: expected labels from 0 to {}, got {}", labels - 1, label));
    }
    taken[static_cast<std::size_t>(label)] = true;
  }
  return taken;
}

}  // namespace

Result<Selection> Selection::Make(const Source& source, const SplitPart& split_part,
                                  const FilterPart& filter) {
  MILLRACE_ASSIGN_OR_RETURN(SplitLabels split, SplitLabels::Make(source, split_part.split));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<bool> taken, TakenLabels(split_part, split.size()));
  MILLRACE_ASSIGN_OR_RETURN(const Filters filters, Filters::Make(source, filter));
  const std::uint64_t examples = source.examples();
  Selection selection(std::move(split));
  PlanCounts& counts = selection.counts_;
  counts.source_examples = examples;
  counts.examples_per_split.assign(taken.size(), 0);
  const std::optional<std::size_t> label_column = selection.split_.column();
  if (!label_column && filters.empty()) {
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
  ColumnExpression::Scratch scratch;
  std::vector<std::uint8_t> passes(std::min(examples, kChunk));
  // The values of a chunk: the columns of the filters, then the one that decides labels.
  std::vector<std::vector<std::int64_t>> values(filters.columns().size() + 1);
  for (auto& column : values) column.resize(std::min(examples, kChunk));
  for (std::uint64_t first = 0; first < examples; first += kChunk) {
    const std::uint64_t count = std::min(kChunk, examples - first);
    std::vector<ColumnValues> wanted;
    for (std::size_t c = 0; c < filters.columns().size(); ++c) {
      const ColumnRead& read = filters.columns()[c];
      wanted.push_back({read.column, std::span(values[c]).first(count), read.presence});
    }
    if (label_column) wanted.push_back({*label_column, std::span(values.back()).first(count)});
    source.ReadColumns(ExampleId(first), wanted);
    filters.Where(ExampleId(first), values, scratch, std::span(passes).first(count));
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t label = label_column ? label_of.Of(values.back()[i]) : 0;
      ++counts.examples_per_split[label];
      if (!taken[label]) continue;
      if (passes[i] != 0 && filters.Pass(ExampleId(first + i), values, i)) {
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

Digest128 Selection::Digest() const {
  const std::string all = fmt::format("{} of {}", size(), counts_.source_examples);
  if (all_) return Xxh3(all);
  return Xxh3(all + ' ' + Xxh3(std::as_bytes(selected_.words())).ToHex());
}

std::optional<std::uint64_t> Selection::RankOf(ExampleId example) const {
  if (example.value() >= counts_.source_examples) return std::nullopt;
  if (all_) return example.value();
  if (!selected_.Test(example.value())) return std::nullopt;
  return selected_.Rank(example.value());
}

}  // namespace millrace
