// Which examples an epoch has: those of the labels taken that pass the filters, in order of their
// ids. Takes 1.2 bits an example of the source, nothing where every example is selected.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/dataset/source.h"
#include "server/pipeline/graph/plan_draft.h"
#include "server/pipeline/order/ranked_bitmap.h"
#include "server/pipeline/order/split_labels.h"

namespace millrace {

/// How the examples of a plan are accounted for.
struct PlanCounts {
  std::uint64_t source_examples = 0;              // ids given
  std::vector<std::uint64_t> examples_per_split;  // by label
  std::uint64_t filtered = 0;                     // by the filters, of the split taken
  std::uint64_t selected = 0;                     // in an epoch
};

class Selection {
 public:
  /// InvalidArgument where the split does not fit the source, or `take` names no label of the
  /// split.
  static Result<Selection> Make(const Source& source, const PlanDraft& draft);

  const PlanCounts& counts() const { return counts_; }
  /// Examples in an epoch.
  std::uint64_t size() const { return counts_.selected; }

  /// The example of a rank among the selected. REQUIRES: rank < size().
  ExampleId At(std::uint64_t rank) const { return ExampleId(all_ ? rank : selected_.Select(rank)); }
  /// The rank of an example, nothing where it is not selected.
  std::optional<std::uint64_t> RankOf(ExampleId example) const;

  const SplitLabels& split() const { return split_; }

 private:
  explicit Selection(SplitLabels split) : split_(std::move(split)) {}

  SplitLabels split_;
  PlanCounts counts_;
  bool all_ = true;
  RankedBitmap selected_;  // unless all_
};

}  // namespace millrace
