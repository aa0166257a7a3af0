// Makes the order that the parts of a plan ask for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/plan/order/row_values.h"
#include "server/plan/order/selections.h"
#include "server/source/order.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {

/// A bucket of `batch.bucket`, for people.
struct BucketFacts {
  std::uint64_t bound = 0;     // the largest value that it holds
  std::uint64_t examples = 0;  // that have such values
  std::uint64_t sum = 0;       // of their values
  std::uint32_t size = 0;      // examples of a batch
  std::uint64_t batches = 0;   // in an epoch
};

/// A branch of a mix, for people.
struct BranchFacts {
  std::string name;
  std::uint64_t weight = 0;    // after division by the greatest common divisor of all
  std::uint64_t examples = 0;  // that are selected, so that a pass has them
  std::uint64_t rows = 0;      // of an epoch that are its examples
};

/// An order and its facts.
struct PlannedOrder {
  std::shared_ptr<const Order> order;
  std::vector<BucketFacts> buckets;         // empty without `batch.bucket`
  std::vector<BranchFacts> branches;        // empty without `branches`
  std::uint64_t budget = 0;                 // of a batch of a bucket; 0: batches have a size
  std::uint64_t above = 0;                  // selected examples that no bucket holds; in no epoch
  std::shared_ptr<const RowValues> values;  // by which buckets or balance sort; null: unused
};

/// The bound of the first bucket that holds the values of all these rows. nullopt if there are no
/// buckets or no rows, or if the last bucket does not hold one of them.
std::optional<std::uint64_t> BoundOf(const PlannedOrder& planned,
                                     std::span<const std::uint64_t> rows);

/// InvalidArgument or FailedPrecondition that begins with the key if the parts do not fit together
/// or do not fit the values of the examples. `selections` are the selections of the source.
Result<PlannedOrder> MakeOrder(const std::shared_ptr<const Source>& source,
                               const Selections& selections, const PlanParts& parts);

}  // namespace millrace
