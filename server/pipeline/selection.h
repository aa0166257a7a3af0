// Which examples an epoch has: those of the labels taken that pass the filters, in order of their
// ids. Takes at most 1.2 bytes an example, nothing where every example is selected and of label 0.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/pipeline/plan.h"
#include "server/pipeline/plan_draft.h"
#include "server/pipeline/ranked_bitmap.h"
#include "server/pipeline/source.h"

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

  /// Label of an example's part of the split. REQUIRES: the source has the example.
  std::uint32_t SplitLabel(ExampleId example) const {
    return labels_.empty() ? 0 : labels_[example.value()];
  }

 private:
  PlanCounts counts_;
  bool all_ = true;
  RankedBitmap selected_;             // unless all_
  std::vector<std::uint8_t> labels_;  // empty: all 0
};

}  // namespace millrace
