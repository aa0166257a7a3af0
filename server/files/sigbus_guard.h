// Keeps a process alive that reads a mapped file whose bytes are gone: the file was truncated, or
// its disk cannot read them. The kernel answers such a read with SIGBUS.
//
// With the guard installed, a fault in a registered range marks the range as damaged. Zero pages
// replace the range from the page of the fault to its end, and the read goes on. So results that
// were computed from a range are valid only if the range, asked afterwards, is not damaged. A fault
// anywhere else has the same effect as without the guard.
//
// The table of ranges is one global object, because a signal handler has no argument by which it
// could find another one. It has a fixed size and consists only of atomics, because a handler may
// read nothing else. Only this module uses it, and it does nothing until main, or a test, installs
// the handler.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/base/result.h"

namespace millrace {

/// Installs the handler of SIGBUS. Further calls do nothing.
void InstallSigbusGuard();

/// The number of faults in registered ranges since the process began. While it does not change, no
/// range becomes damaged.
std::uint64_t SigbusFaults();

/// A mapped range that the guard knows as long as this object lives. Move-only.
class GuardedRange {
 public:
  /// Equal to the number of maps that the kernel allows a process by default.
  static constexpr std::size_t kMaxRanges = std::size_t{1} << 16;

  /// `bytes` has to begin at a page. ResourceExhausted if kMaxRanges ranges are registered.
  static Result<GuardedRange> Register(std::span<const std::byte> bytes);

  GuardedRange() = default;
  GuardedRange(GuardedRange&& other) noexcept;
  GuardedRange& operator=(GuardedRange&& other) noexcept;
  ~GuardedRange() { Release(); }

  /// Call this before the range is unmapped, because another map may then get its addresses.
  void Release();

  /// Offset of the first read that found no bytes; nullopt if the range is intact. Reads at and
  /// after that offset have returned zeros since then, even reads that had begun before.
  std::optional<std::uint64_t> damaged_at() const;

 private:
  static constexpr std::size_t kNoSlot = ~std::size_t{0};

  std::size_t slot_ = kNoSlot;
};

}  // namespace millrace
