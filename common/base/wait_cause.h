// What a consumer can wait for.
//
// Thread-compatible value types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

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

/// "attach", "lease", "connect", "build", "queue", "transfer", "expand", "slot"; "none".
std::string_view WaitCauseName(WaitCause cause);

}  // namespace millrace
