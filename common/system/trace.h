// What a process did, span by span, while a trace is taken.
//
// A span is recorded after it has ended, by whoever knows what it was: the begin is taken with
// Begin, which costs one relaxed load where no trace is taken, and gives a time that Record
// ignores.
//
//   const Time began = tracer.Begin();
//   Work();
//   if (tracer.on()) tracer.Record({.kind = SpanKind::kBuild, .begin = began, ...});
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/span.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"

namespace millrace {

/// A bounded number of spans, the newest: what does not fit pushes out the oldest, which is
/// counted. Memory is taken when a trace begins and given back when all of it has been taken.
/// Thread-safe.
class Tracer {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 15;  // 3 MB

  explicit Tracer(std::shared_ptr<const Clock> clock, std::size_t capacity = kCapacity)
      : clock_(std::move(clock)), capacity_(capacity) {}

  bool on() const { return on_.load(std::memory_order_relaxed); }
  /// Now; unset where nothing is recorded.
  Time Begin() const { return on() ? clock_->Now() : Time{}; }
  /// A span that has ended. Ignored where off, and where it began before the trace did, or at an
  /// unset time.
  void Record(const Span& span);

  /// Records until `until`. What is left of another trace is dropped; the same one again only moves
  /// the end. Traces have numbers from 1.
  void Start(std::uint64_t trace, Time until);

  struct Taken {
    std::uint64_t trace = 0;    // 0: none since the last one was done
    std::vector<Span> spans;    // in the order of their ends
    std::uint64_t dropped = 0;  // of this trace so far
    bool done = false;          // it is over, and nothing is left: the next Take gives none
  };
  /// The oldest spans, at most `most`.
  Taken Take(std::size_t most);

  /// The calling thread's number, as a lane.
  static std::uint32_t ThreadLane();

 private:
  const std::shared_ptr<const Clock> clock_;
  const std::size_t capacity_;
  std::atomic<bool> on_{false};
  Mutex mutex_;
  std::uint64_t trace_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Time from_ MILLRACE_GUARDED_BY(mutex_);
  Time until_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<Span> ring_ MILLRACE_GUARDED_BY(mutex_);  // of capacity_, or empty
  std::size_t first_ MILLRACE_GUARDED_BY(mutex_) = 0;   // the oldest
  std::size_t size_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
