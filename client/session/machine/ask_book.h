// The steps that a consumer has asked of workers and that are not here yet.
//
// A step is asked of one worker, or of up to three: copies of a step that is late. An ask ends when
// the step is here, from any worker, or when it is taken back because its worker fails or drains.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/session/machine/free_steps.h"
#include "common/base/ids.h"
#include "common/base/span.h"
#include "common/base/time.h"

namespace millrace::client {

struct Ask {
  WorkerId worker;
  Time asked;
  Time due;  // when the step was expected here, as its worker's figures said
  AskKind kind = AskKind::kFirst;
  bool known = false;   // the worker's build time was known then
  bool shared = false;  // the worker has the step for a twin: it takes no slot
  bool built = false;   // the worker says so. The step waits for credit, or is on its way
};

/// The asks of one step, in the order in which they were made.
class StepAsks {
 public:
  static constexpr std::size_t kMost = 3;

  std::span<const Ask> all() const { return {asks_.data(), count_}; }
  std::span<Ask> all() { return {asks_.data(), count_}; }
  bool full() const { return count_ == kMost; }
  bool is_built() const;
  /// nullptr if the worker is not asked.
  Ask* Of(WorkerId worker);
  const Ask* Of(WorkerId worker) const;

 private:
  friend class AskBook;
  std::array<Ask, kMost> asks_;
  std::size_t count_ = 0;
};

class AskBook {
 public:
  using Steps = std::map<std::uint64_t, StepAsks>;

  /// The asks of one worker.
  struct OfWorker {
    std::set<std::uint64_t> steps;
    std::uint64_t open = 0;  // of these, asks that take a slot: neither built nor shared
    std::uint64_t runs = 0;  // of consecutive steps
  };

  /// `breaks` says whether no run goes on over the beginning of a step.
  explicit AskBook(std::function<bool(std::uint64_t)> breaks) : breaks_(std::move(breaks)) {}

  /// REQUIRES: the worker is not asked for the step, which is asked of fewer than StepAsks::kMost.
  void Add(std::uint64_t step, const Ask& ask);
  /// The step is here: its asks end, and are returned.
  StepAsks Arrived(std::uint64_t step);
  /// Takes one ask back. The step is free again if nobody else is asked. Returns whether the worker
  /// was asked.
  bool TakeBack(std::uint64_t step, WorkerId worker);
  /// Takes all asks of a worker back. Returns their steps.
  std::vector<std::uint64_t> TakeBackAll(WorkerId worker);
  /// Notes which of its steps the worker has built, and which steps it has or builds for twins.
  void Tell(WorkerId worker, const std::set<std::uint64_t>& built,
            const std::set<std::uint64_t>& twins);
  /// The step comes from the worker, so it is built, if the worker is asked for it.
  void Comes(std::uint64_t step, WorkerId worker);
  /// The loop has passed the steps before `next`.
  void Pass(std::uint64_t next) { free_.Pass(next); }
  /// This process stood still for `more`; steps do not become later by that time.
  void StoodStill(Duration more);

  const Steps& steps() const { return steps_; }
  /// nullptr if the step is not asked of anybody.
  const StepAsks* Find(std::uint64_t step) const;
  const OfWorker& Of(WorkerId worker) const;
  const FreeSteps& free() const { return free_; }
  /// How many asks there were, of each kind.
  std::uint64_t made(AskKind kind) const { return made_[static_cast<std::size_t>(kind)]; }
  std::uint64_t made() const { return made_[0] + made_[1] + made_[2]; }

 private:
  void Erase(std::uint64_t step, const Ask& ask);
  static bool TakesSlot(const Ask& ask);
  bool BeginsRun(const OfWorker& worker, std::uint64_t step) const {
    return step == 0 || !worker.steps.contains(step - 1) || breaks_(step);
  }

  const std::function<bool(std::uint64_t)> breaks_;
  Steps steps_;
  std::unordered_map<WorkerId, OfWorker> workers_;
  FreeSteps free_;
  std::array<std::uint64_t, 3> made_{};
};

}  // namespace millrace::client
