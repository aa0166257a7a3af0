// Asking the processor for memory that is read a little later.
//
// A line that is asked for into the nearest cache holds one of its few places for lines that are
// under way; a line that is asked for into the second cache does so only briefly. So many more
// lines can come at once: random ones took 8 ns each in the first way, and 3.5 ns in the second
// (Zen 4, large pages, 128 lines ahead).
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

namespace internal {

/// GCC takes a function that does nothing but prefetch for one without effect, and leaves out its
/// calls: closures lost most of their hints so, and a fifth of their rate where data are not in the
/// caches. This is no instruction, but an effect to it.
inline void KeepCalls() { asm volatile(""); }

}  // namespace internal

/// Asks for the line of a byte that is read after some others.
inline void AskForLine(const void* byte) {
  __builtin_prefetch(byte, 0, 2);
  internal::KeepCalls();
}

/// Asks for a line into the nearest cache: one that mostly lies in the second one, or that is read
/// next but few.
inline void AskForNearLine(const void* byte) {
  __builtin_prefetch(byte);
  internal::KeepCalls();
}

/// AskForLine for all lines that `count` bytes lie in.
inline void AskForLines(const std::byte* bytes, std::uint64_t count) {
  constexpr std::uintptr_t kLine = 64;
  const std::byte* const end = bytes + count;
  bytes -= reinterpret_cast<std::uintptr_t>(bytes) % kLine;
  for (; bytes < end; bytes += kLine) AskForLine(bytes);
}

}  // namespace millrace
