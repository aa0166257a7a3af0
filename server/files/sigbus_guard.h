// Keeps a process alive that reads a mapped file whose bytes are gone: cut off under the map, or on
// a disk that cannot read them. The kernel answers such a read with SIGBUS.
//
// With the guard installed, a fault in a registered range marks the range as damaged and puts zero
// pages there, from the page of the fault to the end of the range; the read goes on. So whatever
// was computed from a range counts only if the range is asked afterwards and is not damaged. A
// fault anywhere else gets what SIGBUS did before.
//
// The table of ranges is the one object of the process: a signal handler has no argument to find
// another by. It has a fixed size and holds nothing but atomics, which is all that a handler may
// read. Nothing but this file knows it, and it does nothing until main, or a test, installs the
// handler.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/base/result.h"

namespace millrace {

/// Installs the handler of SIGBUS. Idempotent.
void InstallSigbusGuard();

/// Faults in registered ranges since the process began: while it stays, no range became damaged.
std::uint64_t SigbusFaults();

/// A mapped range that the guard knows, for as long as the object lives. Move-only.
class GuardedRange {
 public:
  /// As many ranges as the kernel lets a process have maps by default.
  static constexpr std::size_t kMaxRanges = std::size_t{1} << 16;

  /// `bytes` begins at a page. ResourceExhausted where kMaxRanges are registered.
  static Result<GuardedRange> Register(std::span<const std::byte> bytes);

  GuardedRange() = default;
  GuardedRange(GuardedRange&& other) noexcept;
  GuardedRange& operator=(GuardedRange&& other) noexcept;
  ~GuardedRange() { Release(); }

  /// To be called before the range is unmapped: its addresses may then belong to somebody else.
  void Release();

  /// Offset of the first read that found no bytes. From then on, and in reads that went on
  /// meanwhile, zeros were read there and behind.
  std::optional<std::uint64_t> damaged_at() const;

 private:
  static constexpr std::size_t kNoSlot = ~std::size_t{0};

  std::size_t slot_ = kNoSlot;
};

}  // namespace millrace
