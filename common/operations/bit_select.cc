// Bits, by tables, and a choice between two values by each, in one pass: from the bytes of a record
// to floats without anything between.

#include <span>

#include "common/operations/bit_gather.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace millrace {

#if defined(__SSE2__)
namespace {

/// The tables, and what they are applied to.
struct Tables {
  const std::uint8_t* in;
  std::span<const std::uint32_t> bases;
  std::span<const std::int32_t> offsets;
  const std::uint64_t* tables;
  std::size_t words;  // of a group
};

template <bool kStream, bool kLowIsZero>
void Choose(__m128i mask, const std::byte* low, const std::byte* high, std::byte* out) {
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

/// kOffsets is how many bytes a group reads; 0: any number.
template <std::size_t kOffsets, bool kStream, bool kLowIsZero>
void SelectGroups(const Tables& t, const std::byte* low, const std::byte* high, std::byte* out) {
  constexpr std::size_t kMost = 32;
  const std::size_t count = kOffsets == 0 ? t.offsets.size() : kOffsets;
  for (const std::uint32_t base : t.bases) {
    const std::uint64_t* rows[kOffsets == 0 ? kMost : kOffsets];
    for (std::size_t k = 0; k < count; ++k) {
      const std::uint8_t byte = t.in[static_cast<std::ptrdiff_t>(base) + t.offsets[k]];
      rows[k] = t.tables + (k * 256 + byte) * t.words;
    }
    for (std::size_t w = 0; w < t.words; ++w) {
      std::uint64_t word = rows[0][w];
      for (std::size_t k = 1; k < count; ++k) word |= rows[k][w];
      const __m128i bytes = _mm_cvtsi64_si128(static_cast<long long>(word));
      const __m128i pairs = _mm_unpacklo_epi8(bytes, bytes);
      Choose<kStream, kLowIsZero>(_mm_unpacklo_epi16(pairs, pairs), low, high, out);
      Choose<kStream, kLowIsZero>(_mm_unpackhi_epi16(pairs, pairs), low + 16, high + 16, out + 16);
      low += 32;
      high += 32;
      out += 32;
    }
  }
}

using GroupsLoop = void (*)(const Tables&, const std::byte*, const std::byte*, std::byte*);

template <bool kStream, bool kLowIsZero>
GroupsLoop GroupsLoopOf(std::size_t offsets) {
  switch (offsets) {
    case 1:
      return &SelectGroups<1, kStream, kLowIsZero>;
    case 2:
      return &SelectGroups<2, kStream, kLowIsZero>;
    case 3:
      return &SelectGroups<3, kStream, kLowIsZero>;
    case 4:
      return &SelectGroups<4, kStream, kLowIsZero>;
    default:
      return &SelectGroups<0, kStream, kLowIsZero>;
  }
}

}  // namespace

std::size_t BitGather::Select(const std::uint8_t* in, std::size_t begin, std::size_t count,
                              const Choice& choice, std::byte* out) const {
  if (group_ == 0) return 0;
  const std::size_t groups = count / group_;
  const Tables tables{in, std::span(bases_).subspan(begin / group_, groups), offsets_,
                      tables_.data(), group_ / sizeof(std::uint64_t)};
  const GroupsLoop loop = choice.stream
                              ? (choice.low_is_zero ? GroupsLoopOf<true, true>(offsets_.size())
                                                    : GroupsLoopOf<true, false>(offsets_.size()))
                              : (choice.low_is_zero ? GroupsLoopOf<false, true>(offsets_.size())
                                                    : GroupsLoopOf<false, false>(offsets_.size()));
  loop(tables, choice.low, choice.high, out);
  return groups * group_;
}

void BitGather::FinishStream() { _mm_sfence(); }

#else

std::size_t BitGather::Select(const std::uint8_t*, std::size_t, std::size_t, const Choice&,
                              std::byte*) const {
  return 0;
}

void BitGather::FinishStream() {}

#endif

}  // namespace millrace
