#include "common/operations/gather_kernels.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <tmmintrin.h>
#endif

namespace millrace {
namespace {

constexpr std::size_t kWindow = 16;

template <class T>
void Gather(const std::byte* in, std::span<const std::uint32_t> map, std::byte* out) {
  const T* const __restrict from = reinterpret_cast<const T*>(in);
  T* const __restrict to = reinterpret_cast<T*>(out);
  for (std::size_t i = 0; i < map.size(); ++i) to[i] = from[map[i]];
}

#if defined(__SSE2__)

/// Puts values together in registers, because narrower writes past the caches are slower.
void StreamGather4(const std::byte* in, std::span<const std::uint32_t> map, std::byte* out) {
  const auto* const from = reinterpret_cast<const int*>(in);
  const auto pair = [&](std::size_t i) {
    return _mm_unpacklo_epi32(_mm_cvtsi32_si128(from[map[i]]), _mm_cvtsi32_si128(from[map[i + 1]]));
  };
  std::size_t i = 0;
  for (; i + 4 <= map.size(); i += 4) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + 4 * i),
                     _mm_unpacklo_epi64(pair(i), pair(i + 2)));
  }
  Gather<std::uint32_t>(in, map.subspan(i), out + 4 * i);
}

void StreamGather8(const std::byte* in, std::span<const std::uint32_t> map, std::byte* out) {
  const auto one = [&](std::size_t i) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + 8 * std::size_t{map[i]}));
  };
  std::size_t i = 0;
  for (; i + 2 <= map.size(); i += 2) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + 8 * i),
                     _mm_unpacklo_epi64(one(i), one(i + 1)));
  }
  Gather<std::uint64_t>(in, map.subspan(i), out + 8 * i);
}

#endif

bool CanShuffle() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("ssse3") != 0;
#else
  return false;
#endif
}

}  // namespace

GatherLoop GatherLoopOf(std::size_t value_bytes) {
  switch (value_bytes) {
    case 1:
      return &Gather<std::uint8_t>;
    case 2:
      return &Gather<std::uint16_t>;
    case 4:
      return &Gather<std::uint32_t>;
    default:
      return &Gather<std::uint64_t>;
  }
}

GatherLoop StreamGatherLoopOf(std::size_t value_bytes) {
#if defined(__SSE2__)
  if (value_bytes == 4) return &StreamGather4;
  if (value_bytes == 8) return &StreamGather8;
#endif
  (void)value_bytes;
  return nullptr;
}

ByteShuffle::ByteShuffle(std::span<const std::uint32_t> map, std::size_t value_bytes,
                         std::size_t in_bytes)
    : value_bytes_(value_bytes) {
  if (!CanShuffle() || in_bytes < kWindow) return;
  std::vector<std::uint32_t> places(kWindow);
  const std::size_t groups = map.size() * value_bytes / kWindow;
  for (std::size_t group = 0; group < groups; ++group) {
    for (std::size_t i = 0; i < kWindow; ++i) {
      const std::size_t byte = group * kWindow + i;
      places[i] =
          static_cast<std::uint32_t>(map[byte / value_bytes] * value_bytes + byte % value_bytes);
    }
    if (AddGroup(places, in_bytes)) continue;
    groups_.clear();
    return;
  }
}

bool ByteShuffle::AddGroup(std::span<const std::uint32_t> places, std::size_t in_bytes) {
  const auto last = static_cast<std::uint32_t>(in_bytes - kWindow);
  Group group{};
  group.first = std::min(*std::min_element(places.begin(), places.end()), last);
  group.second = std::min(static_cast<std::uint32_t>(group.first + kWindow), last);
  for (std::size_t i = 0; i < kWindow; ++i) {
    const bool is_first = places[i] < group.first + kWindow;
    const std::uint32_t place = places[i] - (is_first ? group.first : group.second);
    if (place >= kWindow) return false;
    group.from_first[i] = is_first ? static_cast<std::uint8_t>(place) : 0x80;
    group.from_second[i] = is_first ? 0x80 : static_cast<std::uint8_t>(place);
  }
  groups_.push_back(group);
  return true;
}

#if defined(__x86_64__)

__attribute__((target("ssse3"))) std::size_t ByteShuffle::Run(const std::byte* in,
                                                              std::size_t begin, std::size_t count,
                                                              std::byte* out) const {
  const std::size_t groups = count * value_bytes_ / kWindow;
  const Group* group = groups_.data() + begin * value_bytes_ / kWindow;
  for (std::size_t i = 0; i < groups; ++i, ++group, out += kWindow) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + group->first));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + group->second));
    const __m128i of_a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(group->from_first));
    const __m128i of_b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(group->from_second));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                     _mm_or_si128(_mm_shuffle_epi8(a, of_a), _mm_shuffle_epi8(b, of_b)));
  }
  return groups * kWindow / value_bytes_;
}

#else

std::size_t ByteShuffle::Run(const std::byte*, std::size_t, std::size_t, std::byte*) const {
  return 0;
}

#endif

}  // namespace millrace
