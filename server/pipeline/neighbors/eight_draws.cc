#include "server/pipeline/neighbors/eight_draws.h"

#include <array>
#include <cstdlib>

#include "server/pipeline/neighbors/philox.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::internal {

#if defined(__x86_64__)

// Every function below is inlined into DrawEight, which says what the processor needs.
#define MILLRACE_AVX2 __attribute__((target("avx2"), always_inline)) inline

// Vectors that are indexed by a loop's variable stay in registers if the loop is unrolled whole.
// Clang decides by itself, and warns where it decides against a pragma.
#if defined(__clang__)
#define MILLRACE_UNROLL(times)
#else
#define MILLRACE_PRAGMA(text) _Pragma(#text)
#define MILLRACE_UNROLL(times) MILLRACE_PRAGMA(GCC unroll times)
#endif

namespace {

using Eight = __m256i;  // of uint32

/// The halves of 64-bit products.
struct Halves {
  Eight low;
  Eight high;
};

MILLRACE_AVX2 Halves Multiply(Eight a, Eight b) {
  const Eight even = _mm256_mul_epu32(a, b);
  const Eight odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  return {_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA),
          _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA)};
}

MILLRACE_AVX2 Eight All(std::uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }

MILLRACE_AVX2 Eight Load(const std::array<std::uint32_t, 8>& values) {
  return _mm256_load_si256(reinterpret_cast<const Eight*>(values.data()));
}

MILLRACE_AVX2 Eight Xor(Eight a, Eight b, Eight c) {
  return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}

/// Block `block` of the words of eight rows.
MILLRACE_AVX2 void Words(std::uint64_t key, std::uint32_t block, Eight number, Eight relation,
                         std::uint32_t hop, Eight* words) {
  Eight c0 = All(block);
  Eight c1 = number;
  Eight c2 = relation;
  Eight c3 = All(hop);
  auto low = static_cast<std::uint32_t>(key);
  auto high = static_cast<std::uint32_t>(key >> 32);
  MILLRACE_UNROLL(10)
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const Halves a = Multiply(c0, All(kPhiloxMultipliers[0]));
    const Halves b = Multiply(c2, All(kPhiloxMultipliers[1]));
    c0 = Xor(b.high, c1, All(low));
    c1 = b.low;
    c2 = Xor(a.high, c3, All(high));
    c3 = a.low;
    low += kPhiloxKeySteps[0];
    high += kPhiloxKeySteps[1];
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

/// Sorts each lane of kSize vectors by Batcher's odd-even merge sort ("Sorting networks and their
/// applications", 1968).
template <int kSize>
MILLRACE_AVX2 void SortLanes(Eight* lanes) {
  MILLRACE_UNROLL(8)
  for (int p = 1; p < kSize; p *= 2) {
    MILLRACE_UNROLL(8)
    for (int k = p; k >= 1; k /= 2) {
      MILLRACE_UNROLL(32)
      for (int j = k % p; j + k < kSize; j += 2 * k) {
        MILLRACE_UNROLL(32)
        for (int i = 0; i < k; ++i) {
          const int a = i + j;
          const int b = i + j + k;
          if (b >= kSize || a / (2 * p) != b / (2 * p)) continue;
          const Eight least = _mm256_min_epu32(lanes[a], lanes[b]);
          lanes[b] = _mm256_max_epu32(lanes[a], lanes[b]);
          lanes[a] = least;
        }
      }
    }
  }
}

/// Stores lane i of eight vectors at to + i · step, for all i, which ascend.
MILLRACE_AVX2 void StoreRows(const Eight* lanes, std::uint32_t* to, std::size_t step) {
  Eight pairs[8];
  MILLRACE_UNROLL(4)
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32(lanes[i], lanes[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(lanes[i], lanes[i + 1]);
  }
  // Lanes i and i + 4 of four vectors.
  Eight fours[2][4];
  MILLRACE_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    const Eight* const from = pairs + 4 * half;
    fours[half][0] = _mm256_unpacklo_epi64(from[0], from[2]);
    fours[half][1] = _mm256_unpackhi_epi64(from[0], from[2]);
    fours[half][2] = _mm256_unpacklo_epi64(from[1], from[3]);
    fours[half][3] = _mm256_unpackhi_epi64(from[1], from[3]);
  }
  MILLRACE_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_si256(reinterpret_cast<Eight*>(to + i * step),
                        _mm256_permute2x128_si256(fours[0][i], fours[1][i], 0x20));
  }
  MILLRACE_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_si256(reinterpret_cast<Eight*>(to + (i + 4) * step),
                        _mm256_permute2x128_si256(fours[0][i], fours[1][i], 0x31));
  }
}

/// kSize: at least the fan-out, at most 32.
template <std::uint32_t kSize, bool kReplace>
__attribute__((target("avx2"))) std::uint32_t DrawUpTo(std::span<const DrawnRow, 8> rows,
                                                       const DrawOptions& options,
                                                       std::uint32_t* places) {
  alignas(32) std::array<std::uint32_t, 8> entries_of;
  alignas(32) std::array<std::uint32_t, 8> numbers;
  alignas(32) std::array<std::uint32_t, 8> relations;
  for (std::size_t i = 0; i < 8; ++i) {
    entries_of[i] = rows[i].entries;
    numbers[i] = rows[i].number;
    relations[i] = rows[i].relation;
  }
  const Eight number = Load(numbers);
  const Eight relation = Load(relations);
  const std::uint32_t f = options.fanout;
  Eight m = Load(entries_of);  // draws are below this
  if constexpr (!kReplace) m = _mm256_sub_epi32(m, All(f - 1));
  constexpr std::uint32_t kBlocks = (kSize + 3) / 4;
  Eight words[4 * kBlocks];
  MILLRACE_UNROLL(8)
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    if (4 * block < f) Words(options.key, block, number, relation, options.hop, words + 4 * block);
  }
  constexpr std::uint32_t kSize8 = (kSize + 7) / 8 * 8;
  Eight chosen[kSize8];
  Eight right = All(0xFFFFFFFF);
  for (std::uint32_t i = kSize; i < kSize8; ++i) chosen[i] = All(0);
  MILLRACE_UNROLL(32)
  for (std::uint32_t i = 0; i < kSize; ++i) {
    if (i >= f) {
      chosen[i] = All(0xFFFFFFFF);
      continue;
    }
    const Halves product = Multiply(words[i], m);
    // The word may have to be left out if the lower half is below 2^32 mod m, and so below m.
    right =
        _mm256_and_si256(right, _mm256_cmpeq_epi32(_mm256_max_epu32(product.low, m), product.low));
    Eight place = product.high;
    if constexpr (!kReplace) {
      Eight again = All(0);
      MILLRACE_UNROLL(32)
      for (std::uint32_t k = 0; k < i; ++k) {
        again = _mm256_or_si256(again, _mm256_cmpeq_epi32(place, chosen[k]));
      }
      place = _mm256_blendv_epi8(place, _mm256_sub_epi32(m, All(1)), again);
      m = _mm256_add_epi32(m, All(1));
    }
    chosen[i] = place;
  }
  SortLanes<int{kSize}>(chosen);
  // Values beyond a row's places lie among the first ones of the next row, and these are
  // written after it.
  MILLRACE_UNROLL(4)
  for (int from = kSize8 - 8; from >= 0; from -= 8) {
    if (static_cast<std::uint32_t>(from) < f) StoreRows(chosen + from, places + from, f);
  }
  return ~static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(right))) & 0xFF;
}

template <bool kReplace>
std::uint32_t DrawAny(std::span<const DrawnRow, 8> rows, const DrawOptions& options,
                      std::uint32_t* places) {
  if (options.fanout <= 5) return DrawUpTo<5, kReplace>(rows, options, places);
  if (options.fanout <= 10) return DrawUpTo<10, kReplace>(rows, options, places);
  if (options.fanout <= 15) return DrawUpTo<15, kReplace>(rows, options, places);
  if (options.fanout <= 20) return DrawUpTo<20, kReplace>(rows, options, places);
  if (options.fanout <= 25) return DrawUpTo<25, kReplace>(rows, options, places);
  return DrawUpTo<32, kReplace>(rows, options, places);
}

}  // namespace

bool HasEightDraws() { return __builtin_cpu_supports("avx2") != 0; }

std::uint32_t DrawEight(std::span<const DrawnRow, 8> rows, const DrawOptions& options,
                        std::uint32_t* places) {
  return options.replace ? DrawAny<true>(rows, options, places)
                         : DrawAny<false>(rows, options, places);
}

#else

bool HasEightDraws() { return false; }

std::uint32_t DrawEight(std::span<const DrawnRow, 8> /*rows*/, const DrawOptions& /*options*/,
                        std::uint32_t* /*places*/) {
  std::abort();
}

#endif

}  // namespace millrace::internal
