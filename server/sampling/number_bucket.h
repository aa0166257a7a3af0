// Four slots of a table of numbers (number_table.h), which are compared with a node at once.
//
// A value; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace millrace {

/// Node: an unsigned integer of 32 or 64 bits. A bucket of such nodes begins at a multiple of its
/// size, and is in one line of memory.
template <class Node>
struct alignas(sizeof(Node) == 4 ? 32 : 64) NumberBucket {
  static_assert(std::is_unsigned_v<Node> && (sizeof(Node) == 4 || sizeof(Node) == 8));

  static constexpr int kSlots = 4;
  static constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::min();

  Node nodes[kSlots] = {};
  std::int32_t stamps[kSlots] = {kNever, kNever, kNever, kNever};

  /// Bit i is set if slot i has the node, or a stamp below `base`.
  std::uint32_t Find(Node node, std::int32_t base) const {
#if defined(__x86_64__)
    const __m128i old = _mm_cmplt_epi32(Load(stamps), _mm_set1_epi32(base));
    const __m128i found = _mm_or_si128(Equal(node), old);
    return static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(found)));
#else
    std::uint32_t found = 0;
    for (int i = 0; i < kSlots; ++i) {
      found |= static_cast<std::uint32_t>((nodes[i] == node) | (stamps[i] < base)) << i;
    }
    return found;
#endif
  }

#if defined(__x86_64__)

 private:
  static __m128i Load(const void* from) {
    return _mm_load_si128(static_cast<const __m128i*>(from));
  }
  /// All bits of lane i are set if slot i has the node.
  __m128i Equal(Node node) const {
    if constexpr (sizeof(Node) == 4) {
      return _mm_cmpeq_epi32(Load(nodes), _mm_set1_epi32(static_cast<int>(node)));
    } else {
      // SSE2 compares 32 bits: both halves of a node have to be equal.
      const __m128i wanted = _mm_set1_epi64x(static_cast<long long>(node));
      const __m128 low = _mm_castsi128_ps(_mm_cmpeq_epi32(Load(nodes), wanted));
      const __m128 high = _mm_castsi128_ps(_mm_cmpeq_epi32(Load(nodes + 2), wanted));
      return _mm_castps_si128(_mm_and_ps(_mm_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0)),
                                         _mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1))));
    }
  }
#endif
};

}  // namespace millrace
