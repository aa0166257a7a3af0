// Inputs of readers that look at a digest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/hash.h"

namespace millrace::fuzz {

inline std::vector<std::byte> BytesOf(const std::uint8_t* data, std::size_t size) {
  const auto* const first = reinterpret_cast<const std::byte*>(data);
  return {first, first + size};
}

/// The bytes, and their XXH3-128 behind them, so that a reader looks further than at the digest.
inline std::vector<std::byte> WithDigest(std::vector<std::byte> bytes) {
  for (const char byte : Xxh3(std::span<const std::byte>(bytes)).ToBytes()) {
    bytes.push_back(static_cast<std::byte>(byte));
  }
  return bytes;
}

}  // namespace millrace::fuzz
