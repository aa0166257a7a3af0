// Bits, by tables, and a choice between two values by each: from the bytes of a record to floats
// without anything between. The widest instructions of the processor are taken; all give the same
// bytes.

#include <span>

#include "common/operations/bit_gather.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace {

#if defined(__x86_64__)
namespace {

/// The tables, and what they are applied to.
struct Tables {
  const std::uint8_t* in;
  std::span<const std::uint32_t> bases;
  std::span<const std::int32_t> offsets;
  const std::uint64_t* bits;
  std::size_t group;  // bits of a group
};

/// The bits of the group that begins at `base`. kOffsets is how many bytes it reads; 0: any number.
template <std::size_t kOffsets>
std::uint64_t BitsOf(const Tables& t, std::uint32_t base) {
  const std::size_t count = kOffsets == 0 ? t.offsets.size() : kOffsets;
  std::uint64_t bits = 0;
  for (std::size_t k = 0; k < count; ++k) {
    bits |= t.bits[k * 256 + t.in[static_cast<std::ptrdiff_t>(base) + t.offsets[k]]];
  }
  return bits;
}

/// The value of each bit, four, eight or sixteen of them at once. The last one takes two groups
/// Gives the value of each bit, four bits at once.
template <std::size_t kOffsets, bool kStream, bool kLowIsZero>
void SelectBy4(const Tables& t, const std::byte* low, const std::byte* high, std::byte* out) {
  const __m128i places = _mm_setr_epi32(1, 2, 4, 8);
  for (const std::uint32_t base : t.bases) {
    const std::uint64_t bits = BitsOf<kOffsets>(t, base);
    for (std::size_t bit = 0; bit < t.group; bit += 4, low += 16, high += 16, out += 16) {
      const __m128i four = _mm_set1_epi32(static_cast<int>(bits >> bit & 0xf));
      const __m128i mask = _mm_cmpeq_epi32(_mm_and_si128(four, places), places);
      __m128i chosen = _mm_and_si128(mask, _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)));
      if constexpr (!kLowIsZero) {
        const __m128i zero = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low));
        chosen = _mm_or_si128(chosen, _mm_andnot_si128(mask, zero));
      }
      if constexpr (kStream) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(out), chosen);
      } else {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), chosen);
      }
    }
  }
}

/// Eight bits at once.
template <std::size_t kOffsets, bool kStream, bool kLowIsZero>
__attribute__((target("avx2"))) void SelectBy8(const Tables& t, const std::byte* low,
                                               const std::byte* high, std::byte* out) {
  const __m256i places = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (const std::uint32_t base : t.bases) {
    const std::uint64_t bits = BitsOf<kOffsets>(t, base);
    for (std::size_t bit = 0; bit < t.group; bit += 8, low += 32, high += 32, out += 32) {
      const __m256i eight = _mm256_set1_epi32(static_cast<int>(bits >> bit & 0xff));
      const __m256i mask = _mm256_cmpeq_epi32(_mm256_and_si256(eight, places), places);
      __m256i chosen =
          _mm256_and_si256(mask, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high)));
      if constexpr (!kLowIsZero) {
        const __m256i zero = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(low));
        chosen = _mm256_or_si256(chosen, _mm256_andnot_si256(mask, zero));
      }
      if constexpr (kStream) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(out), chosen);
      } else {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), chosen);
      }
    }
  }
}

/// Sixteen bits at once, of two groups. REQUIRES: the number of groups is even; the bits of two
/// groups fit into a word.
template <std::size_t kOffsets, bool kStream, bool kLowIsZero>
__attribute__((target("avx512f"))) void SelectBy16(const Tables& t, const std::byte* low,
                                                   const std::byte* high, std::byte* out) {
  for (std::size_t i = 0; i < t.bases.size(); i += 2) {
    const std::uint64_t bits = BitsOf<kOffsets>(t, t.bases[i]) | BitsOf<kOffsets>(t, t.bases[i + 1])
                                                                     << t.group;
    for (std::size_t bit = 0; bit < 2 * t.group; bit += 16, low += 64, high += 64, out += 64) {
      const auto mask = static_cast<__mmask16>(bits >> bit);
      __m512i chosen;
      if constexpr (kLowIsZero) {
        chosen = _mm512_maskz_loadu_epi32(mask, high);
      } else {
        chosen = _mm512_mask_loadu_epi32(_mm512_loadu_si512(low), mask, high);
      }
      if constexpr (kStream) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(out), chosen);
      } else {
        _mm512_storeu_si512(out, chosen);
      }
    }
  }
}

using SelectGroups = void (*)(const Tables&, const std::byte*, const std::byte*, std::byte*);

template <std::size_t kOffsets, bool kStream, bool kLowIsZero>
SelectGroups SelectGroupsBy(std::size_t lanes) {
  if (lanes == 16) return &SelectBy16<kOffsets, kStream, kLowIsZero>;
  return lanes == 8 ? &SelectBy8<kOffsets, kStream, kLowIsZero>
                    : &SelectBy4<kOffsets, kStream, kLowIsZero>;
}

template <bool kStream, bool kLowIsZero>
SelectGroups SelectGroupsOf(std::size_t lanes, std::size_t offsets) {
  switch (offsets) {
    case 1:
      return SelectGroupsBy<1, kStream, kLowIsZero>(lanes);
    case 2:
      return SelectGroupsBy<2, kStream, kLowIsZero>(lanes);
    case 3:
      return SelectGroupsBy<3, kStream, kLowIsZero>(lanes);
    case 4:
      return SelectGroupsBy<4, kStream, kLowIsZero>(lanes);
    default:
      return SelectGroupsBy<0, kStream, kLowIsZero>(lanes);
  }
}

}  // namespace

std::size_t BitGather::MostLanes() {
  if (__builtin_cpu_supports("avx512f")) return 16;
  return __builtin_cpu_supports("avx2") ? 8 : 4;
}

std::size_t BitGather::Select(const std::uint8_t* in, std::size_t begin, std::size_t count,
                              const Choice& choice, std::byte* out) const {
  if (group_ == 0) return 0;
  const std::size_t lanes = lanes_ == 16 && group_ > 32 ? 8 : lanes_;
  std::size_t groups = count / group_;
  if (lanes == 16) groups -= groups % 2;
  const Tables tables{in, std::span(bases_).subspan(begin / group_, groups), offsets_, bits_.data(),
                      group_};
  const std::size_t offsets = offsets_.size();
  const SelectGroups select =
      choice.stream ? (choice.low_is_zero ? SelectGroupsOf<true, true>(lanes, offsets)
                                          : SelectGroupsOf<true, false>(lanes, offsets))
                    : (choice.low_is_zero ? SelectGroupsOf<false, true>(lanes, offsets)
                                          : SelectGroupsOf<false, false>(lanes, offsets));
  select(tables, choice.low, choice.high, out);
  return groups * group_;
}

#else

std::size_t BitGather::MostLanes() { return 0; }

std::size_t BitGather::Select(const std::uint8_t*, std::size_t, std::size_t, const Choice&,
                              std::byte*) const {
  return 0;
}

#endif

}  // namespace millrace
