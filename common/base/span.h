// One thing that a process did, with its begin and its end. Traces consist of spans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace millrace {

/// The protocol defines the numbers. trace.proto says what each kind means.
enum class SpanKind : std::uint8_t {
  kBuild = 2,
  kShuffle = 3,
  kClosure = 4,
  kBatch = 5,
  kSeal = 6,
  kSend = 7,
  kReceive = 8,
  kGather = 9,
  kExpand = 10,
  kTaken = 11,
  kWaited = 12,
  kOperation = 13,
  kPython = 14,
  kAsk = 15,
};
inline constexpr std::size_t kSpanKinds = 16;  // with 0 and 1, which are not kinds

/// Whether spans of this kind have a name of their own.
constexpr bool HasName(SpanKind kind) {
  return kind == SpanKind::kOperation || kind == SpanKind::kPython;
}

/// Why a worker is asked for a step. The protocol defines the numbers.
enum class AskKind : std::uint8_t {
  kFirst = 0,
  kCopy = 1,   // the step is late at another worker
  kMoved = 2,  // the worker builds the step anyway, for a twin
};
/// "first", "copy" or "moved"; empty for other numbers.
constexpr std::string_view AskKindName(std::uint32_t kind) {
  constexpr std::string_view kNames[] = {"first", "copy", "moved"};
  return kind < std::size(kNames) ? kNames[kind] : std::string_view();
}

struct Span {
  SpanKind kind = SpanKind::kBuild;
  std::uint32_t lane = 0;   // spans of one lane do not overlap, except if one contains the other
  Time begin;               // unset: nothing was being recorded then
  Time end;                 // unset: now
  SessionId session;        // the session that the batch is for
  std::uint64_t epoch = 0;  // the batch's position
  std::uint64_t example = 0;
  std::uint64_t bytes = 0;  // packed size
  // For a wait: its cause; for an ask: an AskKind; for a kind that has names: the number of its
  // name, which the tracer sets.
  std::uint32_t detail = 0;
};

}  // namespace millrace
