#include "server/plan/pack/make_layout.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/system/mutex.h"
#include "common/system/parallel.h"
#include "server/plan/pack/length_sums.h"
#include "server/plan/pack/row_counter.h"

namespace millrace {
namespace {

/// A thread takes so many documents at a time, or one window if that has more.
constexpr std::uint64_t kDocumentsAtOnce = 16384;

/// The pass over all lengths. Its threads take *shares* of consecutive groups, in ascending order.
class LayoutPass {
 public:
  LayoutPass(const DocumentLengths& lengths, const PackOptions& pack, const LayoutOptions& options)
      : lengths_(lengths),
        pack_(pack),
        options_(options),
        documents_(lengths.documents()),
        groups_(PackLayout::GroupsOf(pack, documents_)),
        groups_at_once_(std::max<std::uint64_t>(1, kDocumentsAtOnce / GroupSize())),
        counts_(Zeros(groups_.size())) {}

  Result<PackLayout> Run() {
    const std::uint64_t shares = (groups_.size() + groups_at_once_ - 1) / groups_at_once_;
    const unsigned wanted = options_.threads != 0
                                ? options_.threads
                                : std::max(1u, std::thread::hardware_concurrency());
    const auto threads = static_cast<unsigned>(std::min<std::uint64_t>(wanted, shares));
    if (threads > 0) ParallelFor(threads, threads, [this](std::size_t) { CountShares(); });
    MutexLock lock(mutex_);
    MILLRACE_RETURN_IF_ERROR(status_);
    if (concat()) {
      totals_.rows = totals_.elements / pack_.size + (totals_.elements % pack_.size != 0 ? 1 : 0);
    }
    return PackLayout::Make(pack_, documents_, totals_, std::move(counts_));
  }

 private:
  /// So many zeros, and room for one number more, which PackLayout adds.
  static std::vector<std::uint64_t> Zeros(std::uint64_t count) {
    std::vector<std::uint64_t> zeros;
    zeros.reserve(count + 1);
    zeros.resize(count);
    return zeros;
  }
  bool concat() const { return pack_.method == PackMethod::kConcat; }
  std::uint64_t GroupSize() const { return concat() ? PackLayout::kConcatGroup : pack_.window; }
  std::uint64_t FirstDocument(std::uint64_t group) const {
    return concat() ? std::min(documents_, group * PackLayout::kConcatGroup) : groups_.Begin(group);
  }

  /// Some consecutive groups.
  struct Share {
    std::uint64_t number = 0;
    std::uint64_t first = 0;  // group
    std::uint64_t end = 0;
  };

  /// The work of one thread: until no groups are left, or the pass has failed.
  void CountShares() MILLRACE_EXCLUDES(mutex_) {
    std::optional<RowCounter> counter;
    if (!concat()) counter.emplace(pack_);
    std::vector<std::uint64_t> lengths;
    while (true) {
      const std::uint64_t number = next_++;
      const std::uint64_t first = number * groups_at_once_;
      if (first >= groups_.size()) return;
      if (options_.stop.stop_requested()) {
        return Fail(Cancelled("packing was stopped before all documents were counted"));
      }
      const Share share{number, first, std::min(groups_.size(), first + groups_at_once_)};
      const std::uint64_t begin = FirstDocument(first);
      lengths.resize(FirstDocument(share.end) - begin);
      lengths_.Read(begin, lengths);
      PackTotals totals;
      if (!(counter ? CountRows(share, lengths, *counter, totals)
                    : CountElements(share, lengths, totals))) {
        return;
      }
      Finish(totals, lengths.size());
    }
  }

  /// False if the pass has failed.
  bool CountRows(const Share& share, std::span<const std::uint64_t> lengths, RowCounter& counter,
                 PackTotals& totals) MILLRACE_EXCLUDES(mutex_) {
    if (!Add(AddLengths(lengths))) return false;
    CountGroups(share, lengths, [&](std::span<const std::uint64_t> window) {
      const PackTotals counted = counter.Count(window);
      totals.Add(counted);
      return counted.rows;
    });
    return true;
  }
  bool CountElements(const Share& share, std::span<const std::uint64_t> lengths, PackTotals& totals)
      MILLRACE_EXCLUDES(mutex_) {
    CountGroups(share, lengths,
                [](std::span<const std::uint64_t> group) { return AddLengths(group); });
    const std::span counts = std::span(counts_).subspan(share.first, share.end - share.first);
    const std::optional<std::uint64_t> before = Await(share.number, AddLengths(counts));
    if (before) AddConcat(lengths, pack_.size, *before, totals);
    return before.has_value();
  }

  /// The count of each group of a share is `count(its lengths)`.
  template <class Count>
  void CountGroups(const Share& share, std::span<const std::uint64_t> lengths, const Count& count) {
    std::uint64_t begin = FirstDocument(share.first);
    for (std::uint64_t group = share.first; group < share.end; ++group) {
      const std::uint64_t end = FirstDocument(group + 1);
      counts_[group] = count(lengths.first(end - begin));
      lengths = lengths.subspan(end - begin);
      begin = end;
    }
  }

  /// Adds the elements of a share to those of all, once the shares before it have done so. Returns
  /// how many elements these have; nullopt if the pass has failed.
  std::optional<std::uint64_t> Await(std::uint64_t share, std::uint64_t sum)
      MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (status_.ok() && turn_ != share) changed_.Wait(mutex_);
    ++turn_;
    changed_.NotifyAll();
    return AddLocked(sum);
  }
  /// The same, in any order.
  std::optional<std::uint64_t> Add(std::uint64_t sum) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return AddLocked(sum);
  }
  std::optional<std::uint64_t> AddLocked(std::uint64_t sum) MILLRACE_REQUIRES(mutex_) {
    if (!status_.ok()) return std::nullopt;
    if (sum > kMaxPackElements - elements_) {
      status_ = TooManyElements(documents_);
      return std::nullopt;
    }
    return std::exchange(elements_, elements_ + sum);
  }

  /// The other threads end at their next share.
  void Fail(Status status) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    changed_.NotifyAll();
  }

  void Finish(const PackTotals& totals, std::uint64_t documents) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    totals_.Add(totals);
    done_ += documents;
    if (options_.progress) options_.progress(done_);
  }

  const DocumentLengths& lengths_;
  const PackOptions& pack_;
  const LayoutOptions& options_;
  const std::uint64_t documents_;
  const PackWindows groups_;
  const std::uint64_t groups_at_once_;
  std::vector<std::uint64_t> counts_;   // of each group; each has one writer
  std::atomic<std::uint64_t> next_{0};  // share

  Mutex mutex_;
  CondVar changed_;                                     // status_ or turn_
  Status status_ MILLRACE_GUARDED_BY(mutex_);           // the first error
  std::uint64_t turn_ MILLRACE_GUARDED_BY(mutex_) = 0;  // the share whose sum is the next
  std::uint64_t elements_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t done_ MILLRACE_GUARDED_BY(mutex_) = 0;
  PackTotals totals_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace

Result<PackLayout> MakePackLayout(const DocumentLengths& lengths, const PackOptions& pack,
                                  const LayoutOptions& options) {
  MILLRACE_RETURN_IF_ERROR(PackLayout::CheckLimits(pack, lengths.documents()));
  return LayoutPass(lengths, pack, options).Run();
}

}  // namespace millrace
