// The functions of exponential.h and trigonometry.h over arrays: the same values, several at a
// time.
//
// Pure functions.
#pragma once

#include <cstddef>

namespace millrace::math {

/// Write the function of each of `count` values. `in` and `out` must not overlap.
void ExpOfEach(const double* in, double* out, std::size_t count);
void LogOfEach(const double* in, double* out, std::size_t count);
void TanhOfEach(const double* in, double* out, std::size_t count);
void SinOfEach(const double* in, double* out, std::size_t count);
void CosOfEach(const double* in, double* out, std::size_t count);

void ExpOfEach(const float* in, float* out, std::size_t count);
void LogOfEach(const float* in, float* out, std::size_t count);
void TanhOfEach(const float* in, float* out, std::size_t count);
void SinOfEach(const float* in, float* out, std::size_t count);
void CosOfEach(const float* in, float* out, std::size_t count);

}  // namespace millrace::math
