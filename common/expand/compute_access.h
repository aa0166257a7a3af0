// How the compute kernel (compute_kernel.h) finds the values that a task reads and writes.
//
// C++17, because nvcc compiles it too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/expand/compute_task.h"
#include "common/expand/tile.h"
#include "common/tensor/float_bits.h"

namespace millrace::kernel {

MILLRACE_HOST_DEVICE inline const unsigned char* ReadAt(const ComputeLaunch& launch,
                                                        const Place& place) {
  switch (place.memory) {
    case Memory::kPayload:
      return launch.payload + place.offset;
    case Memory::kScratch:
      return launch.scratch + place.offset;
    case Memory::kOut:
      return launch.out + place.offset;
    case Memory::kConstants:
      return launch.constants + place.offset;
    case Memory::kTables:
      break;
  }
  return launch.tables + place.offset;
}

template <class T>
MILLRACE_HOST_DEVICE const T* ReadAs(const ComputeLaunch& launch, const Place& place) {
  return reinterpret_cast<const T*>(ReadAt(launch, place));
}

template <class T>
MILLRACE_HOST_DEVICE T* WriteAs(const ComputeLaunch& launch, const Place& place) {
  unsigned char* const memory = place.memory == Memory::kScratch ? launch.scratch : launch.out;
  return reinterpret_cast<T*>(memory + place.offset);
}

template <std::size_t kBytes>
using WordOf = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t,
                       std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

/// Value `i` of an array whose values have `bytes` bytes; the bits above them are 0.
MILLRACE_HOST_DEVICE inline std::uint64_t LoadWord(const unsigned char* from, std::uint8_t bytes,
                                                   std::uint64_t i) {
  switch (bytes) {
    case 1:
      return Load(from + i);
    case 2:
      return Load(reinterpret_cast<const std::uint16_t*>(from) + i);
    case 4:
      return Load(reinterpret_cast<const std::uint32_t*>(from) + i);
    default:
      return Load(reinterpret_cast<const std::uint64_t*>(from) + i);
  }
}

MILLRACE_HOST_DEVICE inline void StoreWord(unsigned char* to, std::uint8_t bytes, std::uint64_t i,
                                           std::uint64_t bits) {
  switch (bytes) {
    case 1:
      to[i] = static_cast<std::uint8_t>(bits);
      break;
    case 2:
      reinterpret_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(bits);
      break;
    case 4:
      reinterpret_cast<std::uint32_t*>(to)[i] = static_cast<std::uint32_t>(bits);
      break;
    default:
      reinterpret_cast<std::uint64_t*>(to)[i] = bits;
      break;
  }
}

template <class T>
MILLRACE_HOST_DEVICE T ValueOf(std::uint64_t bits) {
  return BitCast<T>(static_cast<WordOf<sizeof(T)>>(bits));
}

template <class T>
MILLRACE_HOST_DEVICE std::uint64_t BitsOf(T value) {
  return BitCast<WordOf<sizeof(T)>>(value);
}

/// Finds where the elements of a share are, in units of `extent` elements. 64-bit division takes
/// many times as long as 32-bit division, so it happens once per share.
class Units {
 public:
  MILLRACE_HOST_DEVICE Units(const Share& share, std::uint64_t extent)
      : begin_(share.begin), extent_(extent), unit_(begin_ / extent), place_(begin_ % extent) {}

  struct At {
    std::uint64_t unit;
    std::uint64_t place;
  };

  /// REQUIRES: element `i` is one of the share.
  MILLRACE_HOST_DEVICE At Of(std::uint64_t i) const {
    const std::uint64_t at = place_ + (i - begin_);
    if (at < extent_) return {unit_, at};
    // A tile does not reach beyond the next unit of such an extent.
    if (extent_ >= std::uint64_t{1} << 31) return {unit_ + 1, at - extent_};
    const auto extent = static_cast<std::uint32_t>(extent_);
    const auto narrow = static_cast<std::uint32_t>(at);
    return {unit_ + narrow / extent, narrow % extent};
  }

 private:
  std::uint64_t begin_;
  std::uint64_t extent_;
  std::uint64_t unit_;
  std::uint64_t place_;
};

/// The row in [low, high] to which element `i` belongs; `high` if no other row has it.
MILLRACE_HOST_DEVICE inline std::uint64_t RowOf(const std::int64_t* splits, std::uint64_t i,
                                                std::uint64_t low, std::uint64_t high) {
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (static_cast<std::uint64_t>(Load(splits + middle + 1)) > i) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace millrace::kernel
