// The selected examples of a plan: of its source or, in a mix, of each branch. It finds the example
// of a row that an order gives, and the row of an example.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plan/order/selection.h"
#include "server/source/order.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {

class Selections {
 public:
  /// The parts of a branch select among its examples. Errors of Selection::Make; errors of a branch
  /// name it. REQUIRES: the parts have as many branches as the source.
  static Result<Selections> Make(std::shared_ptr<const Source> source, const PlanParts& parts);

  /// The counts of all branches together. Split labels are counted by branch only, if there are
  /// branches.
  const PlanCounts& counts() const { return counts_; }
  /// Number of branches; 1 for a source without branches.
  std::size_t branches() const { return of_.size(); }
  const std::shared_ptr<const Selection>& of(std::size_t branch) const {
    return of_[branch].selection;
  }

  /// REQUIRES: the branch has the row.
  ExampleId At(OrderRow row) const {
    const Branch& branch = of_[row.branch];
    return ExampleId(branch.first + branch.selection->At(row.row).value());
  }
  /// nullopt if the example is not selected. REQUIRES: the source has it.
  std::optional<OrderRow> RowOf(ExampleId example) const;
  /// The split label of an example, in its branch. REQUIRES: the source has it.
  std::uint32_t SplitLabel(ExampleId example) const;

 private:
  struct Branch {
    std::shared_ptr<const Source> source;
    std::shared_ptr<const Selection> selection;
    std::uint64_t first = 0;  // the number, in the mix, of its first example
  };

  explicit Selections(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  const Branch& BranchOf(ExampleId example) const {
    return of_[millrace::BranchOf(source_->branches(), example)];
  }

  std::shared_ptr<const Source> source_;
  std::vector<Branch> of_;
  PlanCounts counts_;
};

}  // namespace millrace
