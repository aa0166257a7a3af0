// The batches that a session holds for its loop, and the window. The window is the number of
// batches that may be held or under way together. It follows from prefetch_bytes and the mean size
// of the batches seen.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "client/session/machine/attach.h"
#include "client/session/machine/session_context.h"
#include "client/session/machine/stats.h"

namespace millrace::client {

class Stock {
 public:
  static constexpr std::uint64_t kLargestWindow = 4096;

  struct Held {
    Digest128 digest;
    std::uint64_t bytes = 0;
    std::uint64_t wire_bytes = 0;
    BatchCounts counts;
    bool in_place = false;
    WorkerId worker;
  };
  /// A step that the loop has taken.
  struct Past {
    std::uint64_t step = 0;
    Digest128 digest;
    WorkerId worker;
  };

  Stock(const SessionContext& context, const Attach& attach) : context_(context), attach_(attach) {}

  /// To be called once, when the session is admitted.
  void OnAdmitted();
  /// Keeps a batch for the loop. It is the first copy of that step, and came from `worker`.
  void Keep(std::uint64_t step, const Arrival& arrival, WorkerId worker);
  /// The loop takes step next(). REQUIRES: holds(next()).
  void Take();
  /// The number of batches that the loop has taken and not dropped yet. Returns true if the window
  /// changes with it.
  bool SetLoopHolds(std::uint64_t batches);

  std::uint64_t next() const { return next_; }
  bool holds(std::uint64_t step) const { return held_.count(step) != 0; }
  /// nullptr if the step is not held.
  const Held* Find(std::uint64_t step) const;
  /// The last steps taken, for comparison with late copies.
  const std::deque<Past>& past() const { return past_; }
  std::uint64_t held_batches() const { return held_.size(); }
  std::uint64_t held_bytes() const { return held_bytes_; }
  std::uint64_t largest_bytes() const { return largest_bytes_; }
  std::uint64_t loop_holds() const { return loop_holds_; }
  /// No batch may be larger than this. A receiver checks it before it takes memory.
  std::uint64_t batch_limit_bytes() const;
  void AddTo(SessionStats& stats) const;

  // The functions below REQUIRE that the session is admitted.
  double MeanBytes() const;
  /// The number of batches from next() on that may be here or on their way together.
  std::uint64_t window() const;

 private:
  const SessionContext& context_;
  const Attach& attach_;

  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Held> held_;  // by step
  std::uint64_t held_bytes_ = 0;
  std::deque<Past> past_;
  double mean_bytes_ = 0;
  std::uint64_t largest_bytes_ = 0;
  std::uint64_t arrived_ = 0;
  std::uint64_t loop_holds_ = 0;
  SessionStats taken_;  // counts of the batches that the loop has taken
};

}  // namespace millrace::client
