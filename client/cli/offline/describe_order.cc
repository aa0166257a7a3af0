#include "client/cli/offline/describe_order.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/source/source.h"

namespace millrace::cli {
namespace {

/// A share as a percentage; "-" of nothing.
std::string Percent(double share, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * share / whole) : "-";
}

/// What ranks have of a step, by the values of their rows. Rows of a bucket are padded to its
/// bound.
std::vector<double> SumsOf(const PlannedOrder& planned, OrderReader& reader,
                           const StepArithmetic& steps, Position at) {
  std::vector<double> sums;
  for (std::uint32_t rank = 0; rank < steps.options().world_size; ++rank) {
    std::vector<OrderRow> rows;
    reader.Rows(at.epoch, steps.RankExamples(at, rank), rows);
    std::vector<std::uint64_t> numbers;
    for (const OrderRow& row : rows) numbers.push_back(row.row);
    std::vector<std::uint64_t> values(numbers.size());
    planned.values->Read(numbers, values);
    const auto bucket = std::find_if(
        planned.buckets.begin(), planned.buckets.end(),
        [&](const BucketFacts& facts) { return !values.empty() && values[0] <= facts.bound; });
    sums.push_back(bucket == planned.buckets.end()
                       ? std::accumulate(values.begin(), values.end(), 0.0)
                       : static_cast<double>(bucket->bound * values.size()));
  }
  return sums;
}

}  // namespace

std::string DescribeBuckets(const PlannedOrder& planned) {
  if (planned.buckets.empty()) return {};
  std::vector<std::uint64_t> bounds;
  double padded = 0;
  double sum = 0;
  std::string rows;
  for (const BucketFacts& facts : planned.buckets) {
    bounds.push_back(facts.bound);
    const double own = static_cast<double>(facts.bound) * static_cast<double>(facts.examples);
    padded += own;
    sum += static_cast<double>(facts.sum);
    const double room = static_cast<double>(planned.budget) * static_cast<double>(facts.batches);
    const double kept =
        static_cast<double>(std::min<std::uint64_t>(facts.examples, facts.batches * facts.size));
    rows +=
        fmt::format("  {:>14} {:>12} {:>10} {:>10} {:>9} {:>9}\n", facts.bound, facts.examples,
                    facts.size, facts.batches, Percent(own - static_cast<double>(facts.sum), own),
                    Percent(kept * static_cast<double>(facts.bound), room));
  }
  std::string text = fmt::format("buckets        {}, {} of padded data is padding\n",
                                 planned.buckets.size(), Percent(padded - sum, padded));
  text += fmt::format("  {:>14} {:>12} {:>10} {:>10} {:>9} {:>9}\n", "bound", "examples", "size",
                      "batches", "padding", "fill");
  text += rows;
  return text + fmt::format("  to pin them: batch.bucket.bounds: [{}]\n", fmt::join(bounds, ", "));
}

std::string DescribeBranches(const Plan& plan) {
  const std::vector<BranchFacts>& branches = plan.planned_order().branches;
  if (branches.empty()) return {};
  std::string text = fmt::format("branches       {}\n", branches.size());
  text += fmt::format("  {:<16} {:<16} {:>8} {:>12} {:>12} {:>12} {:>8}\n", "branch", "dataset",
                      "weight", "examples", "selected", "an epoch", "passes");
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const BranchFacts& facts = branches[i];
    const SourceBranch& branch = plan.source()->branches()[i];
    text += fmt::format("  {:<16} {:<16} {:>8} {:>12} {:>12} {:>12} {:>8.3f}\n", facts.name,
                        branch.dataset, facts.weight, branch.source->examples(), facts.examples,
                        facts.rows,
                        static_cast<double>(facts.rows) / static_cast<double>(facts.examples));
  }
  return text;
}

std::string DescribeBalance(const PlannedOrder& planned, const StepArithmetic& steps) {
  constexpr std::uint64_t kSteps = 100;
  const std::uint32_t ranks = steps.options().world_size;
  if (planned.values == nullptr || ranks == 1) return {};
  // A last step that is not full says nothing about the others.
  const std::uint64_t all = steps.options().examples / steps.stride();
  if (all == 0) return {};
  const std::uint64_t looked_at = std::min(all, kSteps);
  const auto reader = planned.order->NewReader();
  double worst = 0;
  double mean = 0;
  for (std::uint64_t i = 0; i < looked_at; ++i) {
    const Result<Position> at = steps.StepAt(0, i * all / looked_at);
    if (!at.ok()) break;
    const std::vector<double> sums = SumsOf(planned, *reader, steps, *at);
    const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
    const double ratio =
        total > 0 ? *std::max_element(sums.begin(), sums.end()) * ranks / total : 1;
    worst = std::max(worst, ratio);
    mean += ratio / static_cast<double>(looked_at);
  }
  return fmt::format(
      "largest rank   {:.3f} of the mean rank of a step, on average; {:.3f} at worst of {} steps\n",
      mean, worst, looked_at);
}

}  // namespace millrace::cli
