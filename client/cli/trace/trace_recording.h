// A trace as it came from the dispatcher, and its form as Chrome's JSON, which
// https://ui.perfetto.dev and chrome://tracing show.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "millrace/v1/trace.pb.h"

namespace millrace::cli {

class TraceRecording {
 public:
  /// Identifies a process of the trace: its role and number.
  using ProcessKey = std::pair<v1::TraceRole, Number>;

  void Add(v1::TraceChunk chunk);

  std::size_t spans() const { return spans_; }
  /// Number of spans that were lost before they arrived here.
  std::uint64_t dropped() const;
  std::size_t processes(v1::TraceRole role) const;
  /// Every clock, once corrected, agrees with the dispatcher's within this many nanoseconds.
  std::uint64_t clock_error_ns() const;

  /// Writes the trace in the Trace Event Format, in pieces. It has a process for the dispatcher,
  /// each worker and each consumer; a complete event (X) for each span, with its batch, and
  /// asynchronous events (b, e) instead for asks, which overlap; and flow events (s, t, f) that
  /// connect the spans of one batch. Times are microseconds since the trace began, by the
  /// dispatcher's clock.
  void WriteJson(const std::function<void(std::string_view)>& out) const;

 private:
  std::uint64_t began_ = 0;
  std::map<ProcessKey, v1::TraceProcess> processes_;  // the latest message about each process
  std::map<SessionId, v1::TraceSession> sessions_;
  std::vector<std::pair<ProcessKey, v1::Spans>> chunks_;
  std::size_t spans_ = 0;
};

}  // namespace millrace::cli
