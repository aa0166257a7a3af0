// Constants of the header's format. The encoder and the decoder (batch_header.h) share them.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>

#include "common/batch/layout/layout.h"

namespace millrace::internal {

static_assert(std::endian::native == std::endian::little,
              "batches are little endian and are read in place");

inline constexpr std::string_view kBatchMagic = "MILLBTCH";
inline constexpr std::uint64_t kFixedBytes = 104;       // before the example ids
inline constexpr std::uint64_t kTensorFixedBytes = 56;  // in a tensor's record, before its extents
inline constexpr std::uint64_t kChecksumBytes = 8;
inline constexpr std::uint32_t kNoTensor = std::numeric_limits<std::uint32_t>::max();

/// The smallest multiple of `multiple` that is at least n.
constexpr std::uint64_t RoundUp(std::uint64_t n, std::uint64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// The size of a tensor's record, including padding.
std::uint64_t RecordBytes(const TensorPlace& tensor);

}  // namespace millrace::internal
