// The selected examples, which have a wanted label and pass the filters, in the order of their ids.
// A selection takes 1.2 bits for each example of the source, and no memory if every example is
// selected.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plan/order/split_labels.h"
#include "server/source/order_parts.h"
#include "server/source/ranked_bitmap.h"
#include "server/source/source.h"

namespace millrace {

/// Numbers of a plan's examples, counted at each step of the selection.
struct PlanCounts {
  std::uint64_t source_examples = 0;              // all ids of the source
  std::vector<std::uint64_t> examples_per_split;  // by label
  std::uint64_t filtered = 0;                     // left out by filters, among the wanted labels
  std::uint64_t selected = 0;                     // all others
  std::uint64_t above = 0;                        // selected, but in no epoch: no bucket holds them
};

class Selection {
 public:
  /// InvalidArgument if the split or the filter does not fit the source, or if `take` names no
  /// label of the split.
  static Result<Selection> Make(const Source& source, const SplitPart& split,
                                const FilterPart& filter);

  const PlanCounts& counts() const { return counts_; }
  /// Number of selected examples.
  std::uint64_t size() const { return counts_.selected; }

  /// The selected example with this rank. REQUIRES: rank < size().
  ExampleId At(std::uint64_t rank) const { return ExampleId(all_ ? rank : selected_.Select(rank)); }
  /// Whether an example is selected. REQUIRES: the source has it.
  bool Has(ExampleId example) const { return all_ || selected_.Test(example.value()); }
  /// The rank of an example; nullopt if it is not selected.
  std::optional<std::uint64_t> RankOf(ExampleId example) const;

  /// A digest of which examples are selected. Takes 1 ms for ten million examples.
  Digest128 Digest() const;

  const SplitLabels& split() const { return split_; }

 private:
  explicit Selection(SplitLabels split) : split_(std::move(split)) {}

  SplitLabels split_;
  PlanCounts counts_;
  bool all_ = true;
  RankedBitmap selected_;  // used only if all_ is false
};

}  // namespace millrace
