#include "server/kinds/graph/format/numbers_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/system/mutex.h"
#include "common/system/parallel.h"

namespace millrace {
namespace {

constexpr std::uint64_t kPieceRows = std::uint64_t{1} << 14;

/// The error of the piece that comes first, whichever thread finds it. Thread-safe.
class FirstError {
 public:
  void Add(std::size_t piece, Status status) {
    MutexLock lock(mutex_);
    if (piece >= piece_ && !status_.ok()) return;
    piece_ = piece;
    status_ = std::move(status);
  }
  Status Take() {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  std::size_t piece_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Status status_ MILLRACE_GUARDED_BY(mutex_);
};

class NumbersCheck {
 public:
  NumbersCheck(const GraphDataset& dataset, const CheckNumbersOptions& options)
      : dataset_(dataset), options_(options) {}

  Status Run() const {
    MILLRACE_RETURN_IF_ERROR(
        ForEach(dataset_.nodes(), [this](std::uint64_t node) { return CheckNode(node); }));
    for (const auto& entry : dataset_.description().arrays) {
      const GraphArray& array = *dataset_.Find(entry.first);
      if (entry.first.starts_with("roots/")) {
        MILLRACE_RETURN_IF_ERROR(ForEach(
            array.rows(), [&](std::uint64_t row) { return dataset_.Root(array, row).status(); }));
      } else if (entry.first.starts_with("graphs/")) {
        MILLRACE_RETURN_IF_ERROR(ForEach(
            array.rows() - 1, [&](std::uint64_t row) { return CheckSmallGraph(array, row); }));
      }
    }
    // A read of a file that was cut off meanwhile gave zeros.
    for (const WatchedFile& watched : dataset_.files().files()) {
      MILLRACE_RETURN_IF_ERROR(
          watched.file.CheckIntact().WithContext(fmt::format("{}: {}", Where(), watched.name)));
    }
    return OkStatus();
  }

 private:
  std::string Where() const { return "dataset " + dataset_.dir().string(); }

  /// Checks the numbers 0 to below `count`, in pieces on several threads.
  template <class Check>
  Status ForEach(std::uint64_t count, const Check& check) const {
    FirstError error;
    const std::uint64_t pieces = (count + kPieceRows - 1) / kPieceRows;
    ParallelFor(options_.threads, pieces, [&](std::size_t piece) {
      if (options_.stop.stop_requested()) return;
      const std::uint64_t end = std::min(count, (piece + 1) * kPieceRows);
      for (std::uint64_t number = piece * kPieceRows; number < end; ++number) {
        Status status = check(number);
        if (!status.ok()) return error.Add(piece, std::move(status));
      }
    });
    if (options_.stop.stop_requested()) {
      return Cancelled(Where() + ": stopped before its numbers were checked");
    }
    return error.Take();
  }

  Status CheckNode(std::uint64_t node) const {
    MILLRACE_RETURN_IF_ERROR(dataset_.NodeLabel(node).status());
    MILLRACE_ASSIGN_OR_RETURN(const GraphRange row, dataset_.Row(node));
    std::uint32_t last = 0;
    for (std::uint64_t edge = row.begin; edge < row.end; ++edge) {
      MILLRACE_RETURN_IF_ERROR(dataset_.Neighbour(edge).status());
      MILLRACE_ASSIGN_OR_RETURN(const std::uint32_t label, dataset_.EdgeLabel(edge));
      if (label < last) {
        return dataset_.BadNumber(
            *dataset_.Find("edge_label"), edge,
            fmt::format("is {} after {}: labels of a row ascend", label, last));
      }
      last = label;
    }
    return OkStatus();
  }

  Status CheckSmallGraph(const GraphArray& list, std::uint64_t number) const {
    MILLRACE_ASSIGN_OR_RETURN(const GraphRange nodes, dataset_.SmallGraph(list, number));
    for (std::uint64_t node = nodes.begin; node < nodes.end; ++node) {
      MILLRACE_ASSIGN_OR_RETURN(const GraphRange row, dataset_.Row(node));
      for (std::uint64_t edge = row.begin; edge < row.end; ++edge) {
        MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t other, dataset_.Neighbour(edge));
        if (!nodes.Contains(other)) return dataset_.LeavesSmallGraph(nodes, node, edge, other);
      }
    }
    return OkStatus();
  }

  const GraphDataset& dataset_;
  const CheckNumbersOptions& options_;
};

}  // namespace

Status CheckNumbers(const GraphDataset& dataset, const CheckNumbersOptions& options) {
  return NumbersCheck(dataset, options).Run();
}

}  // namespace millrace
