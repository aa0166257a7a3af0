#include "common/math/arrays.h"

#include "common/math/exponential.h"
#include "common/math/trigonometry.h"

namespace millrace::math {
namespace {

template <class T, class F>
void Each(const T* __restrict in, T* __restrict out, std::size_t count, F f) {
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<T>(f(in[i]));
}

/// `of_small` holds for most values and has no branches, so that the first loop is vectorised.
template <class T, class OfSmall, class F>
void EachAngle(const T* in, T* out, std::size_t count, OfSmall of_small, F f) {
  constexpr std::size_t kBlock = 256;
  double angles[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    int large = 0;
    for (std::size_t i = 0; i < n; ++i) {
      angles[i] = static_cast<double>(in[begin + i]);
      large |= internal::IsSmall(angles[i]) ? 0 : 1;
    }
    if (large != 0) {
      for (std::size_t i = 0; i < n; ++i) out[begin + i] = static_cast<T>(f(angles[i]));
    } else {
      for (std::size_t i = 0; i < n; ++i) out[begin + i] = static_cast<T>(of_small(angles[i]));
    }
  }
}

template <class T>
void SinEach(const T* in, T* out, std::size_t count) {
  EachAngle(
      in, out, count, [](double x) { return internal::SinOfSmall(x); },
      [](double x) { return Sin(x); });
}

template <class T>
void CosEach(const T* in, T* out, std::size_t count) {
  EachAngle(
      in, out, count, [](double x) { return internal::CosOfSmall(x); },
      [](double x) { return Cos(x); });
}

}  // namespace

void ExpOfEach(const double* in, double* out, std::size_t count) {
  Each(in, out, count, [](double x) { return Exp(x); });
}
void LogOfEach(const double* in, double* out, std::size_t count) {
  Each(in, out, count, [](double x) { return Log(x); });
}
void TanhOfEach(const double* in, double* out, std::size_t count) {
  Each(in, out, count, [](double x) { return Tanh(x); });
}
void SinOfEach(const double* in, double* out, std::size_t count) { SinEach(in, out, count); }
void CosOfEach(const double* in, double* out, std::size_t count) { CosEach(in, out, count); }

void ExpOfEach(const float* in, float* out, std::size_t count) {
  Each(in, out, count, [](double x) { return Exp(x); });
}
void LogOfEach(const float* in, float* out, std::size_t count) {
  Each(in, out, count, [](double x) { return Log(x); });
}
void TanhOfEach(const float* in, float* out, std::size_t count) {
  Each(in, out, count, [](double x) { return Tanh(x); });
}
void SinOfEach(const float* in, float* out, std::size_t count) { SinEach(in, out, count); }
void CosOfEach(const float* in, float* out, std::size_t count) { CosEach(in, out, count); }

}  // namespace millrace::math
