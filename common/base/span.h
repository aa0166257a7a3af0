// One thing that a process did, with its begin and its end. Traces consist of spans.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace millrace {

/// The numbers are those of the protocol. trace.proto says what each kind means.
enum class SpanKind : std::uint8_t {
  kLease = 1,
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
};
inline constexpr std::size_t kSpanKinds = 15;

/// Whether spans of this kind have a name of their own.
constexpr bool HasName(SpanKind kind) {
  return kind == SpanKind::kOperation || kind == SpanKind::kPython;
}

struct Span {
  SpanKind kind = SpanKind::kBuild;
  std::uint32_t lane = 0;  // spans of one lane do not overlap, except if one contains the other
  Time begin;              // unset: nothing was being recorded then
  Time end;                // unset: now
  Number session;          // the session that the batch is for
  Number lease;
  std::uint64_t epoch = 0;  // the batch's position
  std::uint64_t example = 0;
  std::uint64_t bytes = 0;  // packed size; for a lease: the stride of its shard
  // For a wait: its cause; for a lease: the batches of its shard; for a kind that has names: the
  // number of its name, which the tracer sets.
  std::uint32_t detail = 0;
};

}  // namespace millrace
