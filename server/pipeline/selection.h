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
#include "server/pipeline/plan.h"
#include "server/pipeline/plan_draft.h"
#include "server/pipeline/ranked_bitmap.h"
#include "server/pipeline/source.h"
#include "server/pipeline/split_labels.h"

namespace millrace {

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
