// Writes past the caches, for outputs that are too large to stay in them and are not read again
// soon. Such writes save reading the memory that they replace.
#pragma once

#include <cstddef>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace millrace {

/// StreamCopy writes to multiples of this.
inline constexpr std::size_t kStreamAlignment = 64;

/// Copies bytes. REQUIRES: `to` is at a multiple of kStreamAlignment; FinishStream comes after the
/// last call, before another thread reads.
inline void StreamCopy(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
#if defined(__SSE2__)
  for (; at + 16 <= bytes; at += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
#endif
  std::memcpy(to + at, from + at, bytes - at);
}

inline void FinishStream() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace millrace
