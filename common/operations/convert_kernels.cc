#include "common/operations/convert_kernels.h"

#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "common/tensor/dtype_visit.h"
#include "common/tensor/scale.h"

namespace millrace {
namespace {

template <class From, class To>
void Convert(const std::byte* in, std::byte* out, std::size_t count) {
  const From* const __restrict from = reinterpret_cast<const From*>(in);
  To* const __restrict to = reinterpret_cast<To*>(out);
  for (std::size_t i = 0; i < count; ++i) to[i] = ConvertValue<To>(from[i]);
}

#if defined(__x86_64__)
// The same values by instructions that not every processor has.

/// For integers of 64 bits that become floats.
template <class From, class To>
__attribute__((target("avx512dq,avx512vl"))) void ConvertWideIntegers(const std::byte* in,
                                                                      std::byte* out,
                                                                      std::size_t count) {
  const From* const __restrict from = reinterpret_cast<const From*>(in);
  To* const __restrict to = reinterpret_cast<To*>(out);
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

/// For floats of 16 bits.
template <class From, class To>
__attribute__((target("avx2"))) void ConvertSmallFloats(const std::byte* in, std::byte* out,
                                                        std::size_t count) {
  const From* const __restrict from = reinterpret_cast<const From*>(in);
  To* const __restrict to = reinterpret_cast<To*>(out);
  for (std::size_t i = 0; i < count; ++i) to[i] = ConvertValue<To>(from[i]);
}

/// Whether the processor has F16C, and the system keeps the registers that it needs. Clang 14
/// cannot be asked by name.
bool HasHalves() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __builtin_cpu_supports("avx") != 0 && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
         (c & bit_F16C) != 0;
}

__attribute__((target("f16c"))) void ConvertToHalves(const std::byte* in, std::byte* out,
                                                     std::size_t count) {
  const auto* const from = reinterpret_cast<const float*>(in);
  auto* const to = reinterpret_cast<Float16*>(out);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  for (; i < count; ++i) to[i] = ConvertValue<Float16>(from[i]);
}
#endif

template <class From, class To>
ConvertLoop ConvertLoopFor() {
#if defined(__x86_64__)
  if constexpr (std::is_integral_v<From> && sizeof(From) == 8 && std::is_floating_point_v<To>) {
    if (__builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0) {
      return &ConvertWideIntegers<From, To>;
    }
  }
  if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Float16>) {
    if (HasHalves()) return &ConvertToHalves;
  }
  if constexpr (kIsSmallFloat<From> || kIsSmallFloat<To>) {
    if (__builtin_cpu_supports("avx2") != 0) return &ConvertSmallFloats<From, To>;
  }
#endif
  return &Convert<From, To>;
}

template <class T>
void Scale(const std::byte* in, std::byte* out, std::size_t count, const std::byte* scale,
           const std::byte* offset) {
  const T* const __restrict from = reinterpret_cast<const T*>(in);
  const T* const __restrict by = reinterpret_cast<const T*>(scale);
  const T* const __restrict plus = reinterpret_cast<const T*>(offset);
  T* const __restrict to = reinterpret_cast<T*>(out);
  for (std::size_t i = 0; i < count; ++i) to[i] = ScaleValue(from[i], by[i], plus[i]);
}

}  // namespace

ConvertLoop ConvertLoopOf(DType from, DType to) {
  return VisitValues(from, [to](auto in) {
    return VisitValues(to, [](auto out) { return ConvertLoopFor<decltype(in), decltype(out)>(); });
  });
}

ScaleLoop ScaleLoopOf(DType compute) {
  return VisitValues(compute, [](auto zero) -> ScaleLoop {
    if constexpr (std::is_arithmetic_v<decltype(zero)>) {
      return &Scale<decltype(zero)>;
    } else {
      return nullptr;
    }
  });
}

}  // namespace millrace
