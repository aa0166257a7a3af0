// The causes for which a consumer waits.
//
// Thread-compatible value types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace {

/// The causes for which Session::Next waits. The numbers are those of the protocol.
enum class WaitCause : std::uint8_t {
  kNone = 0,
  kAttach = 1,    // the dispatcher's Welcome
  kLease = 2,     // no lease covers the next batch
  kConnect = 3,   // the client is not connected to the worker of the next batch
  kBuild = 4,     // the worker is building the next batch
  kQueue = 5,     // the worker is building batches that come before the next one
  kTransfer = 6,  // the next batch is being transferred
  kExpand = 7,    // the client is expanding the next batch
  kSlot = 8,      // the training loop holds so many batches that none could be prefetched
};
inline constexpr std::size_t kWaitCauses = 9;

/// "attach", "lease", "connect", "build", "queue", "transfer", "expand" or "slot"; "none" for
/// kNone.
std::string_view WaitCauseName(WaitCause cause);

}  // namespace millrace
