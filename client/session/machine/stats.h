// What a session counts: deliveries, and every second that the training loop waited, by cause.
//
// Thread-compatible value types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/batch/layout/layout.h"

namespace millrace {

/// What Session::Next can wait for. Numbers are those of the protocol.
enum class WaitCause : std::uint8_t {
  kNone = 0,
  kAttach = 1,    // the dispatcher's Welcome
  kLease = 2,     // no lease covers the next batch
  kConnect = 3,   // the worker of the next batch is not connected
  kBuild = 4,     // the worker builds the next batch
  kQueue = 5,     // the worker builds what comes before the next batch
  kTransfer = 6,  // the next batch is on its way
  kExpand = 7,    // the client expands the next batch
  kSlot = 8,      // the training loop holds so many batches that nothing could be prefetched
};
inline constexpr std::size_t kWaitCauses = 9;
inline constexpr std::size_t kDropReasons = 5;

/// "attach", "lease", "connect", "build", "queue", "transfer", "expand", "slot"; "none".
std::string_view WaitCauseName(WaitCause cause);

/// Cumulative over one session, counted when the training loop takes a batch.
struct SessionStats {
  std::uint64_t batches = 0;
  std::uint64_t examples = 0;  // delivered; dropped ones are counted by reason below
  std::uint64_t bytes = 0;     // packed
  std::uint64_t in_place = 0;  // batches that were read where a worker of this host built them
  std::array<std::uint64_t, kDropReasons> dropped{};  // by DropReason
  std::array<double, kWaitCauses> waited_seconds{};   // by WaitCause
  std::string device;            // what it is, and what goes slower than it could, and why
  std::uint64_t duplicates = 0;  // batches that came twice
  std::uint64_t duplicate_mismatches = 0;  // ... whose digests differed
  std::uint64_t lapsed_leases = 0;         // taken back from workers that failed
  std::uint64_t self_leases = 0;           // given by the consumer to itself

  std::uint64_t buffered_batches = 0;  // received, not taken yet
  std::uint64_t buffered_bytes = 0;
  WaitCause now = WaitCause::kNone;  // what the loop waits for at this moment
  double now_seconds = 0;            // how long already
  std::string now_worker;            // host:port, where a worker is waited for
  std::string now_stage;             // of the build, where the worker said so

  double total_waited_seconds() const {
    double total = 0;
    for (const double seconds : waited_seconds) total += seconds;
    return total;
  }
};

}  // namespace millrace
