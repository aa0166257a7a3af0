#include "server/sampling/eight_draws.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>

#include "common/base/unroll.h"
#include "server/sampling/philox.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::internal {

#if defined(__x86_64__)

// Functions marked so are inlined into DrawUpTo, which says what the processor needs.
#define MILLRACE_AVX2 __attribute__((target("avx2"), always_inline)) inline

namespace {

using Eight = __m256i;  // of uint32

/// A number for each of eight rows: those of rows 0, 2, 4 and 6, and those of the others, each in
/// the lower half of 64 bits. The upper halves have anything. Products of 32 bits take numbers so.
struct Split {
  Eight even;
  Eight odd;
};

MILLRACE_AVX2 Eight All(std::uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
MILLRACE_AVX2 Eight Xor(Eight a, Eight b) { return _mm256_xor_si256(a, b); }
MILLRACE_AVX2 Eight Upper(Eight product) { return _mm256_srli_epi64(product, 32); }
MILLRACE_AVX2 Split SplitOf(Eight numbers) { return {numbers, Upper(numbers)}; }

/// The lower and upper halves of the eight products, in the order of their rows.
MILLRACE_AVX2 Eight LowerHalves(Split products) {
  return _mm256_blend_epi32(products.even, _mm256_slli_epi64(products.odd, 32), 0xAA);
}
MILLRACE_AVX2 Eight UpperHalves(Split products) {
  return _mm256_blend_epi32(Upper(products.even), products.odd, 0xAA);
}

/// The keys of the rounds of Philox.
struct RoundKeys {
  explicit RoundKeys(std::uint64_t key) {
    for (std::uint32_t round = 0; round < kPhiloxRounds; ++round) {
      low[round] = static_cast<std::uint32_t>(key) + round * kPhiloxKeySteps[0];
      high[round] = static_cast<std::uint32_t>(key >> 32) + round * kPhiloxKeySteps[1];
    }
  }
  std::uint32_t low[kPhiloxRounds];
  std::uint32_t high[kPhiloxRounds];
};

/// A block of words. A round of Philox multiplies words 0 and 2 of the counter, which gives the
/// products a and b here. Counters of rows differ in word 1 alone, so that three products of the
/// first rounds are the same for all rows; they are made once.
class BlockWords {
 public:
  BlockWords() = default;
  BlockWords(const RoundKeys& keys, std::uint32_t block, const DrawOptions& options) {
    const std::uint64_t a0 = std::uint64_t{kPhiloxMultipliers[0]} * block;
    const std::uint64_t b0 = std::uint64_t{kPhiloxMultipliers[1]} * options.relation;
    const std::uint64_t b1 =
        std::uint64_t{kPhiloxMultipliers[1]} * (Up(a0) ^ options.hop ^ keys.high[0]);
    const std::uint64_t a2 =
        std::uint64_t{kPhiloxMultipliers[0]} * (Up(b1) ^ Down(b0) ^ keys.low[1]);
    with_number_ = Up(b0) ^ keys.low[0];
    second_ = Down(a0) ^ keys.high[1];
    third_[0] = Down(b1) ^ keys.low[2];
    third_[1] = Up(a2) ^ keys.high[2];
    fourth_ = Down(a2) ^ keys.high[3];
  }

  /// The words of four rows, whose numbers are in the lower halves of 64 bits; so are the words.
  MILLRACE_AVX2 void Of(const RoundKeys& keys, Eight number, Eight* words) const {
    // Rows differ in c0 after the first round, in c2 and c3 after the second one, and in all but c3
    // after the third one.
    Eight a = Times<0>(Xor(number, All(with_number_)));
    Eight b = Times<1>(Xor(Upper(a), All(second_)));
    Eight c0 = Xor(Upper(b), All(third_[0]));
    Eight c1 = b;
    Eight c2 = Xor(a, All(third_[1]));
    a = Times<0>(c0);
    b = Times<1>(c2);
    c0 = Xor(Xor(Upper(b), c1), All(keys.low[3]));
    c1 = b;
    c2 = Xor(Upper(a), All(fourth_));
    Eight c3 = a;
    MILLRACE_UNROLL(10)
    for (int round = 4; round < kPhiloxRounds; ++round) {
      a = Times<0>(c0);
      b = Times<1>(c2);
      c0 = Xor(Xor(Upper(b), c1), All(keys.low[round]));
      c1 = b;
      c2 = Xor(Xor(Upper(a), c3), All(keys.high[round]));
      c3 = a;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
  }

 private:
  static std::uint32_t Up(std::uint64_t product) {
    return static_cast<std::uint32_t>(product >> 32);
  }
  static std::uint32_t Down(std::uint64_t product) { return static_cast<std::uint32_t>(product); }
  template <int kWhich>
  MILLRACE_AVX2 static Eight Times(Eight numbers) {
    return _mm256_mul_epu32(numbers, All(kPhiloxMultipliers[kWhich]));
  }

  // Mixed in by the first four rounds.
  std::uint32_t with_number_ = 0;
  std::uint32_t second_ = 0;
  std::uint32_t third_[2] = {};
  std::uint32_t fourth_ = 0;
};

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

/// Eight rows.
struct EightRows {
  Eight entries;
  Eight numbers;
};

/// Moves pairs 0, 2, 1 and 3 into their order.
MILLRACE_AVX2 Eight InOrder(__m256 pairs) {
  return _mm256_permute4x64_epi64(_mm256_castps_si256(pairs), _MM_SHUFFLE(3, 1, 2, 0));
}

/// Loads up to eight rows. Lanes that have none are 0.
MILLRACE_AVX2 EightRows LoadRows(std::span<const DrawnRow> rows) {
  static_assert(sizeof(DrawnRow) == 8);
  const auto* const from = reinterpret_cast<const long long*>(rows.data());
  Eight four[2];
  if (rows.size() >= 8) {
    four[0] = _mm256_loadu_si256(reinterpret_cast<const Eight*>(from));
    four[1] = _mm256_loadu_si256(reinterpret_cast<const Eight*>(from + 4));
  } else {
    const Eight count = _mm256_set1_epi64x(static_cast<long long>(rows.size()));
    four[0] =
        _mm256_maskload_epi64(from, _mm256_cmpgt_epi64(count, _mm256_setr_epi64x(0, 1, 2, 3)));
    four[1] =
        _mm256_maskload_epi64(from + 4, _mm256_cmpgt_epi64(count, _mm256_setr_epi64x(4, 5, 6, 7)));
  }
  const __m256 a = _mm256_castsi256_ps(four[0]);
  const __m256 b = _mm256_castsi256_ps(four[1]);
  return {InOrder(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0))),
          InOrder(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)))};
}

/// Draws for up to eight rows. Returns a bit for each row that may need more words. kSize: at least
/// the fan-out, at most 32.
template <std::uint32_t kSize, bool kReplace>
MILLRACE_AVX2 std::uint32_t DrawUpToEight(std::span<const DrawnRow> rows, const RoundKeys& keys,
                                          const BlockWords* blocks, std::uint32_t f,
                                          std::uint32_t* places) {
  const EightRows eight = LoadRows(rows);
  const Split number = SplitOf(eight.numbers);
  Eight m = eight.entries;  // draws are below this
  if constexpr (!kReplace) m = _mm256_sub_epi32(m, All(f - 1));
  constexpr std::uint32_t kBlocks = (kSize + 3) / 4;
  Eight even[4 * kBlocks];
  Eight odd[4 * kBlocks];
  MILLRACE_UNROLL(8)
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    if (4 * block >= f) continue;
    blocks[block].Of(keys, number.even, even + 4 * block);
    blocks[block].Of(keys, number.odd, odd + 4 * block);
  }
  constexpr std::uint32_t kSize8 = (kSize + 7) / 8 * 8;
  Eight chosen[kSize8];
  Eight least = All(0xFFFFFFFF);
  for (std::uint32_t i = kSize; i < kSize8; ++i) chosen[i] = All(0);
  MILLRACE_UNROLL(32)
  for (std::uint32_t i = 0; i < kSize; ++i) {
    if (i >= f) {
      chosen[i] = All(0xFFFFFFFF);
      continue;
    }
    const Split below = SplitOf(m);
    const Split product = {_mm256_mul_epu32(even[i], below.even),
                           _mm256_mul_epu32(odd[i], below.odd)};
    least = _mm256_min_epu32(least, LowerHalves(product));
    Eight place = UpperHalves(product);
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
  // A word has to be left out if the lower half is below 2^32 mod m, and so below m, which is at
  // most the number of entries.
  const Eight right = _mm256_cmpeq_epi32(_mm256_max_epu32(least, eight.entries), least);
  const auto bits = static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(right)));
  const std::uint32_t all = rows.size() >= 8 ? 0xFF : (1u << rows.size()) - 1;
  return ~bits & all;
}

template <std::uint32_t kSize, bool kReplace>
__attribute__((target("avx2"))) void DrawUpTo(std::span<const DrawnRow> rows,
                                              const DrawOptions& options, std::uint32_t* places,
                                              std::vector<std::uint32_t>& again) {
  const RoundKeys keys(options.key);
  std::array<BlockWords, (kSize + 3) / 4> blocks;
  for (std::uint32_t block = 0; block < blocks.size(); ++block) {
    blocks[block] = BlockWords(keys, block, options);
  }
  for (std::size_t at = 0; at < rows.size(); at += 8) {
    std::uint32_t bits = DrawUpToEight<kSize, kReplace>(
        rows.subspan(at), keys, blocks.data(), options.fanout, places + at * options.fanout);
    for (; bits != 0; bits &= bits - 1) {
      again.push_back(static_cast<std::uint32_t>(at) +
                      static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }
}

template <bool kReplace>
void DrawAny(std::span<const DrawnRow> rows, const DrawOptions& options, std::uint32_t* places,
             std::vector<std::uint32_t>& again) {
  if (options.fanout <= 5) return DrawUpTo<5, kReplace>(rows, options, places, again);
  if (options.fanout <= 10) return DrawUpTo<10, kReplace>(rows, options, places, again);
  if (options.fanout <= 15) return DrawUpTo<15, kReplace>(rows, options, places, again);
  if (options.fanout <= 20) return DrawUpTo<20, kReplace>(rows, options, places, again);
  if (options.fanout <= 25) return DrawUpTo<25, kReplace>(rows, options, places, again);
  return DrawUpTo<32, kReplace>(rows, options, places, again);
}

}  // namespace

bool HasEightDraws() { return __builtin_cpu_supports("avx2") != 0; }

void DrawEights(std::span<const DrawnRow> rows, const DrawOptions& options, std::uint32_t* places,
                std::vector<std::uint32_t>& again) {
  options.replace ? DrawAny<true>(rows, options, places, again)
                  : DrawAny<false>(rows, options, places, again);
}

#else

bool HasEightDraws() { return false; }

void DrawEights(std::span<const DrawnRow> /*rows*/, const DrawOptions& /*options*/,
                std::uint32_t* /*places*/, std::vector<std::uint32_t>& /*again*/) {
  std::abort();
}

#endif

}  // namespace millrace::internal
