// The tiles of the compute kernel (compute_kernel.h) that move and convert values.
//
// C++17, because nvcc compiles it too.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/expand/compute_access.h"
#include "common/tensor/dtype_visit.h"
#include "common/tensor/scale.h"

namespace millrace::kernel {

template <class T>
MILLRACE_HOST_DEVICE void MoveTile(const ComputeLaunch& launch, const ComputeTask& task,
                                   const Share& share) {
  const T* const in = ReadAs<T>(launch, task.in);
  T* const out = WriteAs<T>(launch, task.out);
  if (!task.mapped) {
    for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
      out[i] = Load(in + i);
    }
    return;
  }
  const std::uint32_t* const map = ReadAs<std::uint32_t>(launch, task.map);
  const Units units(share, task.out_unit);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const Units::At at = units.Of(i);
    out[i] = Load(in + at.unit * task.in_unit + Load(map + at.place));
  }
}

/// The bit at a place of a unit.
MILLRACE_HOST_DEVICE inline std::uint32_t BitAt(const unsigned char* in, const ComputeTask& task,
                                                const std::uint32_t* map, const Units::At& at) {
  const std::uint32_t place = Load(map + at.place);
  return Load(in + at.unit * task.in_unit + place / 8) >> (place % 8) & 1U;
}

MILLRACE_HOST_DEVICE inline void BitsTile(const ComputeLaunch& launch, const ComputeTask& task,
                                          const Share& share) {
  const unsigned char* const in = ReadAt(launch, task.in);
  const std::uint32_t* const map = ReadAs<std::uint32_t>(launch, task.map);
  unsigned char* const out = WriteAs<unsigned char>(launch, task.out);
  const Units units(share, task.out_unit);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    out[i] = static_cast<unsigned char>(BitAt(in, task, map, units.Of(i)));
  }
}

template <class T>
MILLRACE_HOST_DEVICE void SelectTile(const ComputeLaunch& launch, const ComputeTask& task,
                                     const Share& share) {
  const unsigned char* const in = ReadAt(launch, task.in);
  const std::uint32_t* const map = ReadAs<std::uint32_t>(launch, task.map);
  const T* const values = ReadAs<T>(launch, task.values);
  T* const out = WriteAs<T>(launch, task.out);
  const Units units(share, task.out_unit);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const Units::At at = units.Of(i);
    out[i] = Load(values + BitAt(in, task, map, at) * task.out_unit + at.place);
  }
}

template <class From>
struct ConvertTo {
  From value;
  std::uint64_t& bits;
  template <class To>
  MILLRACE_HOST_DEVICE void operator()(To) const {
    bits = BitsOf(ConvertValue<To>(value));
  }
};

struct ConvertFrom {
  DType to;
  std::uint64_t& bits;
  template <class From>
  MILLRACE_HOST_DEVICE void operator()(From) const {
    VisitValues(to, ConvertTo<From>{ValueOf<From>(bits), bits});
  }
};

struct ScaleBits {
  const unsigned char* scale;
  const unsigned char* offset;
  std::uint64_t place;
  std::uint64_t& bits;
  template <class T>
  MILLRACE_HOST_DEVICE void operator()(T) const {
    if constexpr (std::is_arithmetic_v<T>) {
      bits = BitsOf(ScaleValue<T>(ValueOf<T>(bits), Load(reinterpret_cast<const T*>(scale) + place),
                                  Load(reinterpret_cast<const T*>(offset) + place)));
    }
  }
};

/// The bits of a value after the passes. `place` is the value's place in its unit of the output.
MILLRACE_HOST_DEVICE inline std::uint64_t PassBits(const unsigned char* constants,
                                                   const ComputePass* passes, std::uint32_t count,
                                                   std::uint64_t place, std::uint64_t bits) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const ComputePass& pass = passes[i];
    if (pass.scales) {
      VisitValues(pass.to, ScaleBits{constants + pass.scale, constants + pass.offset,
                                     pass.each ? place : 0, bits});
    } else {
      VisitValues(pass.from, ConvertFrom{pass.to, bits});
    }
  }
  return bits;
}

MILLRACE_HOST_DEVICE inline void ConvertTile(const ComputeLaunch& launch, const ComputeTask& task,
                                             const Share& share) {
  const unsigned char* const in = ReadAt(launch, task.in);
  const std::uint32_t* const map = ReadAs<std::uint32_t>(launch, task.map);
  const ComputePass* const passes = ReadAs<ComputePass>(launch, task.values);
  unsigned char* const out = WriteAs<unsigned char>(launch, task.out);
  const Units units(share, task.out_unit);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const Units::At at = units.Of(i);
    const std::uint64_t from = task.mapped ? at.unit * task.in_unit + Load(map + at.place) : i;
    const std::uint64_t bits = LoadWord(in, task.in_word, from);
    StoreWord(out, task.word, i, PassBits(launch.constants, passes, task.passes, at.place, bits));
  }
}

struct OneHotTile {
  const ComputeLaunch& launch;
  const ComputeTask& task;
  const Share& share;
  template <class T>
  MILLRACE_HOST_DEVICE void operator()(T) const {
    if constexpr (std::is_integral_v<T>) {
      const T* const in = ReadAs<T>(launch, task.in);
      unsigned char* const out = WriteAs<unsigned char>(launch, task.out);
      const auto depth = static_cast<std::int64_t>(task.out_unit);
      const Units units(share, task.out_unit);
      for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
        const Units::At at = units.Of(i);
        const auto place = static_cast<std::int64_t>(Load(in + at.unit));
        const bool none = std::is_signed_v<T> && place == -1;
        if (!none && (place < 0 || place >= depth)) *launch.error = 1;
        out[i] = place == static_cast<std::int64_t>(at.place) ? 1 : 0;
      }
    }
  }
};

}  // namespace millrace::kernel
