// Records what a process does, span by span, while a trace is taken.
//
// A span is recorded after it has ended, by the code that ran it. That code takes the start from
// Begin. While no trace is taken, Begin costs one relaxed load and returns a time that Record
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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/span.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"

namespace millrace {

/// Holds the newest spans, up to a fixed number. A new span pushes out the oldest one if there is
/// no room, and the tracer counts how many were lost. Memory is allocated when a trace begins, and
/// freed when all of the trace has been taken. Thread-safe.
class Tracer {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 15;  // 3 MB
  /// The most names in one trace. All further ones are `others`.
  static constexpr std::size_t kMostNames = 256;

  explicit Tracer(std::shared_ptr<const Clock> clock, std::size_t capacity = kCapacity)
      : clock_(std::move(clock)), capacity_(capacity) {}

  bool on() const { return on_.load(std::memory_order_relaxed); }
  /// Now; unset if nothing is being recorded.
  Time Begin() const { return on() ? clock_->Now() : Time{}; }
  /// Records a span that has ended. It is ignored if no trace is on, if it began before the trace,
  /// or if its start is unset.
  void Record(const Span& span);
  /// Records a span with a name. REQUIRES: its end is set; spans of its kind have names.
  void RecordNamed(Span span, std::string_view name);

  /// Records until `until`. If this is a new trace, the rest of the previous one is dropped. If it
  /// is the same trace again, only its end moves. The numbers of traces begin at 1.
  void Start(std::uint64_t trace, Time until);

  struct Taken {
    std::uint64_t trace = 0;         // 0: no trace since the last one ended
    std::vector<Span> spans;         // in the order in which they were recorded
    std::vector<std::string> names;  // of the trace's spans so far, by number
    std::uint64_t dropped = 0;       // lost spans of this trace so far
    bool done = false;               // the trace is over and all is taken; the next Take is empty
  };
  /// Removes and returns the oldest spans, at most `most`.
  Taken Take(std::size_t most);

  /// A number for the calling thread, for use as a lane.
  static std::uint32_t ThreadLane();

 private:
  void Keep(const Span& span, Time end) MILLRACE_REQUIRES(mutex_);
  std::uint32_t NumberOf(std::string_view name) MILLRACE_REQUIRES(mutex_);

  const std::shared_ptr<const Clock> clock_;
  const std::size_t capacity_;
  std::atomic<bool> on_{false};
  Mutex mutex_;
  std::uint64_t trace_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Time from_ MILLRACE_GUARDED_BY(mutex_);
  Time until_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<Span> ring_ MILLRACE_GUARDED_BY(mutex_);  // capacity_ entries, or empty
  std::size_t first_ MILLRACE_GUARDED_BY(mutex_) = 0;   // place of the oldest span
  std::size_t size_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> names_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
