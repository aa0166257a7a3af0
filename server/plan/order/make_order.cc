#include "server/plan/order/make_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "server/plan/order/balance_order.h"
#include "server/plan/order/bounds.h"
#include "server/plan/order/bucket_order.h"
#include "server/plan/order/classes.h"
#include "server/plan/order/mix_order.h"
#include "server/plan/order/place_order.h"
#include "server/plan/order/selected_values.h"
#include "server/source/mix_parts.h"
#include "server/source/order_parts.h"

namespace millrace {
namespace {

/// The most rows of a batch, as for batch.size.
constexpr std::uint64_t kMaxRows = 1 << 20;
/// The most rows that are dealt at once.
constexpr std::uint64_t kMaxDealt = 1 << 24;

OrderSeed SeedOf(const ShufflePart& shuffle) {
  if (!shuffle.seed) return std::nullopt;
  return static_cast<std::uint64_t>(*shuffle.seed);
}

PlaceOrder PlacesOf(const ShufflePart& shuffle, std::uint64_t n) {
  if (shuffle.block == 0) return PlaceOrder(n, SeedOf(shuffle));
  return PlaceOrder(n, SeedOf(shuffle), shuffle.block, shuffle.window);
}

/// The numbers that decide a bucket order.
struct Buckets {
  std::vector<std::uint64_t> bounds;
  std::vector<std::uint64_t> counts;  // examples of each
  std::uint64_t above = 0;            // examples of none
  std::uint64_t largest = 0;          // value
};

Result<Buckets> BucketsOf(const BucketPart& part, const SelectedValues& values) {
  const std::uint64_t budget = part.budget > 0 ? part.budget : kMaxOrderValue;
  Buckets buckets;
  if (part.count > 0) {
    ValueHistogram histogram(budget);
    MILLRACE_RETURN_IF_ERROR(values.ForAll([&](auto some) { histogram.Add(some); }));
    buckets.bounds = BestBounds(histogram, part.count);
    buckets.counts = BucketCounts(histogram, buckets.bounds);
    buckets.above = histogram.above();
    buckets.largest = histogram.largest();
    return buckets;
  }
  if (part.bounds.back() > budget) {
    return InvalidArgument(
        fmt::format("batch.bucket.bounds: the bound {} is above batch.bucket.budget, {}: not even "
                    "one example would fit a batch",
                    part.bounds.back(), budget));
  }
  buckets.bounds = part.bounds;
  ClassCounter counter(buckets.bounds);
  MILLRACE_RETURN_IF_ERROR(values.ForAll([&](auto some) { counter.Add(some); }));
  buckets.counts.assign(counter.counts().begin(), counter.counts().end());
  buckets.above = counter.above();
  buckets.largest = counter.largest();
  return buckets;
}

Status CheckAbove(const BucketPart& part, const Buckets& buckets) {
  if (buckets.above == 0 || part.drop_above) return OkStatus();
  const bool given = part.count == 0;
  return InvalidArgument(fmt::format(
      "batch.bucket.by: {} examples have values above {} {}, the largest {}; raise it, or leave "
      "these examples out with batch.bucket.above: drop",
      buckets.above, given ? "the last bound" : "batch.bucket.budget",
      given ? part.bounds.back() : part.budget, buckets.largest));
}

/// The rows of a batch of a bucket.
Result<std::uint32_t> SizeOf(const BucketPart& part, bool keep, std::uint64_t bound,
                             std::uint64_t examples) {
  std::uint64_t size = part.size;
  if (size == 0) {
    const std::uint64_t most =
        part.max_size > 0 ? part.max_size : std::numeric_limits<std::uint64_t>::max();
    size = std::min(most, part.budget / std::max<std::uint64_t>(1, bound));
  }
  if (!keep && examples > 0 && examples < size) {
    return FailedPrecondition(fmt::format(
        "batch.bucket: the bucket up to {} has {} examples, fewer than a batch of {}: with "
        "remainder: drop no epoch would have them; write remainder: keep, or make fewer buckets or "
        "smaller batches",
        bound, examples, size));
  }
  if (std::min(size, examples) > kMaxRows) {
    return InvalidArgument(
        fmt::format("batch.bucket.budget: a batch of the bucket up to {} would have {} examples; "
                    "set batch.bucket.max_size, at most {}",
                    bound, size, kMaxRows));
  }
  return static_cast<std::uint32_t>(std::min(size, kMaxRows));
}

Result<PlannedOrder> MakeBucketOrder(const std::shared_ptr<const Source>& source,
                                     const std::shared_ptr<const Selection>& selection,
                                     const ShufflePart& shuffle, const BatchPart& batch) {
  const BucketPart& part = *batch.bucket;
  if (shuffle.block > 0) {
    return InvalidArgument("shuffle.block: expected no blocks beside batch.bucket");
  }
  const auto at_by = [](const Status& status) { return status.WithContext("batch.bucket.by"); };
  const auto values = SelectedValues::Make(source, selection, part.by);
  if (!values.ok()) return at_by(values.status());
  const Result<Buckets> found = BucketsOf(part, **values);
  if (!found.ok()) {
    return found.status().message().starts_with("batch.") ? found.status() : at_by(found.status());
  }
  MILLRACE_RETURN_IF_ERROR(CheckAbove(part, *found));

  BucketOrder::Options options;
  options.keep = batch.keep;
  options.together = part.together;
  options.seed = SeedOf(shuffle);
  PlannedOrder planned;
  planned.above = found->above;
  planned.budget = part.budget;
  for (std::size_t c = 0; c < found->bounds.size(); ++c) {
    MILLRACE_ASSIGN_OR_RETURN(const std::uint32_t size,
                              SizeOf(part, batch.keep, found->bounds[c], found->counts[c]));
    options.sizes.push_back(size);
    planned.buckets.push_back({found->bounds[c], found->counts[c], 0, size, 0});
  }
  Classes::Builder builder(found->bounds, found->counts, selection->size());
  const ClassFinder class_of(found->bounds);
  MILLRACE_RETURN_IF_ERROR((*values)->ForAll([&](std::span<const std::int64_t> some) {
    builder.Add(some);
    for (const std::int64_t value : some) {
      const std::size_t c = class_of(value);
      if (c < planned.buckets.size()) planned.buckets[c].sum += static_cast<std::uint64_t>(value);
    }
  }));
  MILLRACE_ASSIGN_OR_RETURN(Classes classes, std::move(builder).Build());
  const auto order = std::make_shared<const BucketOrder>(
      std::make_shared<const Classes>(std::move(classes)), std::move(options));
  for (std::size_t c = 0; c < planned.buckets.size(); ++c) {
    planned.buckets[c].batches = order->batches_of(c);
  }
  planned.order = order;
  planned.values = *values;
  return planned;
}

Result<PlannedOrder> MakeBalanceOrder(const std::shared_ptr<const Source>& source,
                                      const std::shared_ptr<const Selection>& selection,
                                      const PlanParts& parts) {
  const auto& batch = parts.Get<BatchPart>();
  const auto& part = parts.Get<BalancePart>();
  if (batch.size == 0) {
    return InvalidArgument("balance: expected batch.size beside it, not global_size or bucket");
  }
  if (part.group > kMaxDealt / batch.size) {
    return InvalidArgument(
        fmt::format("balance.group: {} batches of {} examples are more than {} "
                    "examples, which is the most that are dealt at once",
                    part.group, batch.size, kMaxDealt));
  }
  const auto values = SelectedValues::Make(source, selection, part.by);
  if (!values.ok()) return values.status().WithContext("balance.by");
  const Status checked = (*values)->ForAll([](std::span<const std::int64_t>) {});
  if (!checked.ok()) return checked.WithContext("balance.by");
  PlannedOrder planned;
  planned.values = *values;
  planned.order = std::make_shared<const BalanceOrder>(
      PlacesOf(parts.Get<ShufflePart>(), selection->size()), *values,
      BalanceOrder::Options{
          .size = static_cast<std::uint32_t>(batch.size), .group = part.group, .keep = batch.keep});
  return planned;
}

Result<PlannedOrder> MakeMixedOrder(const Source& source, const Selections& selections,
                                    const PlanParts& parts) {
  const std::vector<BranchPart>& branches = parts.Get<BranchesPart>().branches;
  const auto& mix = parts.Get<MixPart>();
  std::vector<PlaceOrder> orders;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    ShufflePart shuffle = branches[i].parts.Get<ShufflePart>();
    const std::uint64_t n = selections.of(i)->size();
    if (n == 0) {
      return FailedPrecondition(
          fmt::format("branches.{}: no example is selected, of {}: see its split and its filter",
                      branches[i].name, selections.of(i)->counts().source_examples));
    }
    // Two branches over one dataset do not meet.
    if (const OrderSeed seed = DeriveSeed(SeedOf(shuffle), "branch", i)) {
      shuffle.seed = static_cast<std::int64_t>(*seed);
    }
    orders.push_back(PlacesOf(shuffle, n));
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto order,
                            MixOrder::Make(std::move(orders), {.weights = mix.weights,
                                                               .seed = mix.seed,
                                                               .rows = mix.rows,
                                                               .all_of = mix.all_of,
                                                               .shortest = mix.shortest}));
  std::uint64_t divisor = 0;
  for (const std::uint64_t weight : mix.weights) divisor = std::gcd(divisor, weight);
  PlannedOrder planned;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    planned.branches.push_back({source.branches()[i].name, mix.weights[i] / divisor,
                                selections.of(i)->size(), order->rows_of()[i]});
  }
  planned.order = order;
  if (order->units() == 0) {
    return FailedPrecondition(fmt::format(
        "mix.epoch: an epoch has no example: with shortest, every branch needs as many examples as "
        "its share of {} places",
        order->shares().block()));
  }
  return planned;
}

}  // namespace

std::optional<std::uint64_t> BoundOf(const PlannedOrder& planned,
                                     std::span<const std::uint64_t> rows) {
  if (planned.buckets.empty() || rows.empty()) return std::nullopt;
  std::vector<std::uint64_t> values(rows.size());
  planned.values->Read(rows, values);
  const std::uint64_t largest = *std::max_element(values.begin(), values.end());
  const auto bucket = std::lower_bound(
      planned.buckets.begin(), planned.buckets.end(), largest,
      [](const BucketFacts& facts, std::uint64_t value) { return facts.bound < value; });
  if (bucket == planned.buckets.end()) return std::nullopt;
  return bucket->bound;
}

Result<PlannedOrder> MakeOrder(const std::shared_ptr<const Source>& source,
                               const Selections& selections, const PlanParts& parts) {
  if (!source->branches().empty()) return MakeMixedOrder(*source, selections, parts);
  const std::shared_ptr<const Selection>& selection = selections.of(0);
  const auto& batch = parts.Get<BatchPart>();
  const auto& shuffle = parts.Get<ShufflePart>();
  PlannedOrder planned;
  if (!parts.Get<BalancePart>().by.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(planned, MakeBalanceOrder(source, selection, parts));
  } else if (batch.bucket) {
    MILLRACE_ASSIGN_OR_RETURN(planned, MakeBucketOrder(source, selection, shuffle, batch));
  } else {
    planned.order = std::make_shared<const ExampleOrder>(PlacesOf(shuffle, selection->size()));
  }
  if (planned.order->unit_is_batch() && planned.order->units() == 0) {
    return FailedPrecondition(fmt::format(
        "batch: an epoch has no batch: of {} selected examples, {} are above all buckets{}",
        selection->size(), planned.above,
        batch.keep ? "" : ", and remainder: drop leaves incomplete batches out"));
  }
  return planned;
}

}  // namespace millrace
