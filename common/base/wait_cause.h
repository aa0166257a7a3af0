// The causes for which a consumer waits.
//
// Thread-compatible value types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace {

/// The causes for which Session::Next waits. The protocol defines the numbers.
enum class WaitCause : std::uint8_t {
  kNone = 0,
  kAttach = 1,    // the dispatcher's Welcome
  kLease = 2,     // no member of its list may build the next batch
  kConnect = 3,   // the client is not connected to the worker of the next batch
  kBuild = 4,     // the worker is building the next batch
  kQueue = 5,     // the worker is building batches that come before the next one
  kTransfer = 6,  // the next batch is being transferred
  kExpand = 7,    // the client is expanding the next batch
  kSlot = 8,      // the training loop holds so many batches that none could be prefetched
  kPython = 9,    // as kBuild, and processes of a plugin take most of the build
};
inline constexpr std::size_t kWaitCauses = 10;

/// "attach", "lease", "connect", "build", "queue", "transfer", "expand", "slot" or "python"; "none"
/// for kNone.
std::string_view WaitCauseName(WaitCause cause);
/// Whether a consumer with this cause waits for one worker.
constexpr bool IsForWorker(WaitCause cause) {
  return (cause >= WaitCause::kConnect && cause <= WaitCause::kTransfer) ||
         cause == WaitCause::kPython;
}
/// Whether more workers could shorten a wait for this cause.
constexpr bool IsForWorkers(WaitCause cause) {
  return cause == WaitCause::kLease || IsForWorker(cause);
}
/// Whether processes of a plugin take the time of this stage of builds: "python", or "python: NAME"
/// where a function of a plugin computes tensors.
bool IsPythonStage(std::string_view stage);

}  // namespace millrace
