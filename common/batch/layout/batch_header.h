// The header of a packed batch as bytes. docs/batch-layout.md is the format; one list of values has
// one encoding, and Decode refuses every other.
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

inline constexpr std::uint32_t kBatchFormatVersion = 1;

/// What a header says.
struct BatchHeader {
  std::uint64_t header_bytes = 0;   // a multiple of kTensorAlignment
  std::uint64_t payload_bytes = 0;  // a multiple of kTensorAlignment
  BatchInfo info;
  std::vector<TensorPlace> tensors;
  std::vector<EdgeGroup> edges;
};

/// Gives every tensor its offset, in order, each at the next multiple of kTensorAlignment; returns
/// the bytes of the payload. REQUIRES: `bytes` of each tensor is set.
std::uint64_t LayOutPayload(std::span<TensorPlace> tensors);

/// Bytes of the encoded header.
std::uint64_t HeaderBytes(const BatchInfo& info, std::span<const TensorPlace> tensors);

/// Writes the header. REQUIRES: out.size() == HeaderBytes(info, tensors), and the tensors follow
/// the rules of tensor_table.h and are laid out by LayOutPayload.
void EncodeHeader(const BatchInfo& info, std::span<const TensorPlace> tensors,
                  std::uint64_t payload_bytes, std::span<std::byte> out);

/// The header at the begin of `bytes`, which may go on after it. Treats the bytes as hostile:
/// DataLoss names what is wrong at which offset, with expected and got; Unimplemented names an
/// unknown format version.
Result<BatchHeader> DecodeHeader(std::span<const std::byte> bytes);

}  // namespace millrace
