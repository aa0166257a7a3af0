#include "common/operations/convert_kernels.h"

#include <cstdint>
#include <type_traits>

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

/// Whether this processor converts several integers of 64 bits to floats at once.
bool ConvertsWideIntegers() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#else
  return false;
#endif
}

/// The same values by instructions that not every processor has.
template <class From, class To>
#if defined(__x86_64__)
__attribute__((target("avx512dq,avx512vl")))
#endif
void ConvertWideIntegers(const std::byte* in, std::byte* out, std::size_t count) {
  const From* const __restrict from = reinterpret_cast<const From*>(in);
  To* const __restrict to = reinterpret_cast<To*>(out);
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

template <class From, class To>
ConvertLoop ConvertLoopFor() {
  if constexpr (std::is_integral_v<From> && sizeof(From) == 8 && std::is_floating_point_v<To>) {
    if (ConvertsWideIntegers()) return &ConvertWideIntegers<From, To>;
  }
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
