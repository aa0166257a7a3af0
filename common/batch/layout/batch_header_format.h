// The numbers of the header's format, shared by the two halves of batch_header.h.
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
inline constexpr std::uint64_t kTensorFixedBytes = 48;  // of a tensor's record, before its shape
inline constexpr std::uint64_t kChecksumBytes = 8;
inline constexpr std::uint32_t kNoTensor = std::numeric_limits<std::uint32_t>::max();

/// The next multiple of `multiple` from n on.
constexpr std::uint64_t RoundUp(std::uint64_t n, std::uint64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Bytes of a tensor's record, padding included.
std::uint64_t RecordBytes(const TensorPlace& tensor);

}  // namespace millrace::internal
