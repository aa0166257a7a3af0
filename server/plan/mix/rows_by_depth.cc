#include "server/plan/mix/rows_by_depth.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/core.h>

namespace millrace {
namespace {

/// Walks from each row to those that it refers to, without recursion: chains are long.
class DepthWalk {
 public:
  DepthWalk(std::uint64_t rows, std::span<const OwnReferences> references, bool first_is_none)
      : references_(references), depth_(rows, kUnknown) {
    if (first_is_none && rows > 0) depth_[0] = 1;
  }

  /// 1 for a row that refers to none, else 1 more than the deepest that it refers to.
  Result<std::vector<std::uint32_t>> Run() {
    for (std::uint64_t row = 0; row < depth_.size(); ++row) {
      if (depth_[row] != kUnknown) continue;
      waiting_.push_back(row);
      while (!waiting_.empty()) MILLRACE_RETURN_IF_ERROR(Visit(waiting_.back()));
    }
    return std::move(depth_);
  }

 private:
  static constexpr std::uint32_t kUnknown = 0;
  static constexpr std::uint32_t kOpen = std::numeric_limits<std::uint32_t>::max();

  /// Finds the depth of the row on top, or puts a row on top that has to be visited before it.
  Status Visit(std::uint64_t row) {
    depth_[row] = kOpen;
    std::uint32_t deepest = 0;
    for (const OwnReferences& one : references_) {
      const std::optional<std::uint64_t> to = one.column.Row(one.values[row]);
      if (!to) continue;
      if (depth_[*to] == kOpen) {
        return DataLoss(fmt::format("row {} refers to row {}, from which it is reached", row, *to));
      }
      if (depth_[*to] == kUnknown) {
        waiting_.push_back(*to);
        return OkStatus();
      }
      deepest = std::max(deepest, depth_[*to]);
    }
    depth_[row] = deepest + 1;
    waiting_.pop_back();
    return OkStatus();
  }

  const std::span<const OwnReferences> references_;
  std::vector<std::uint32_t> depth_;
  std::vector<std::uint64_t> waiting_;  // each refers to the next one
};

}  // namespace

Result<std::vector<std::uint32_t>> RowsByDepth(std::uint64_t rows,
                                               std::span<const OwnReferences> references,
                                               bool first_is_none) {
  std::vector<std::uint32_t> order(rows);
  if (references.empty()) {
    std::iota(order.begin(), order.end(), 0U);
    return order;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> depth,
                            DepthWalk(rows, references, first_is_none).Run());
  std::vector<std::uint32_t> begin;  // of each depth in `order`
  for (const std::uint32_t d : depth) {
    if (d >= begin.size()) begin.resize(d + 1, 0);
    ++begin[d];
  }
  std::exclusive_scan(begin.begin(), begin.end(), begin.begin(), 0U);
  for (std::uint32_t row = 0; row < rows; ++row) order[begin[depth[row]]++] = row;
  return order;
}

}  // namespace millrace
