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

/// Asks for the line of a byte that is read much later: after tens of other lines.
inline void AskForLine(const void* byte) { __builtin_prefetch(byte, 0, 2); }

/// The same for all lines that `count` bytes lie in.
inline void AskForLines(const std::byte* bytes, std::uint64_t count) {
  constexpr std::uintptr_t kLine = 64;
  const std::byte* const end = bytes + count;
  bytes -= reinterpret_cast<std::uintptr_t>(bytes) % kLine;
  for (; bytes < end; bytes += kLine) AskForLine(bytes);
}

}  // namespace millrace
