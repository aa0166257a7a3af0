// Encodes and decodes the header of a packed batch. docs/formats/batch.md describes the format.
// Each list of values has exactly one encoding, and Decode refuses every other.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {

inline constexpr std::uint32_t kBatchFormatVersion = 2;

/// The content of a header.
struct BatchHeader {
  std::uint64_t header_bytes = 0;   // a multiple of kTensorAlignment
  std::uint64_t payload_bytes = 0;  // a multiple of kTensorAlignment
  BatchInfo info;
  std::vector<TensorPlace> tensors;
  std::vector<EdgeGroup> edges;
};

/// Gives every tensor its offset, in order: each begins at the next multiple of kTensorAlignment.
/// Returns the size of the payload in bytes. REQUIRES: `bytes` of each tensor is set.
std::uint64_t LayOutPayload(std::span<TensorPlace> tensors);

/// The size of the encoded header.
std::uint64_t HeaderBytes(const BatchInfo& info, std::span<const TensorPlace> tensors);

/// Writes the header. REQUIRES: out.size() == HeaderBytes(info, tensors); the tensors follow the
/// rules of tensor_table.h; LayOutPayload has laid them out.
void EncodeHeader(const BatchInfo& info, std::span<const TensorPlace> tensors,
                  std::uint64_t payload_bytes, std::span<std::byte> out);

/// Reads the header at the start of `bytes`; other bytes may follow it. The bytes may be hostile.
/// DataLoss says what is wrong at which offset, with expected and got. Unimplemented names an
/// unknown format version.
Result<BatchHeader> DecodeHeader(std::span<const std::byte> bytes);

}  // namespace millrace
