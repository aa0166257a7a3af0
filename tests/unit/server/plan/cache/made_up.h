// Keys and values that tests of the cache make up. Every value can be told from its key, so that a
// wrong one is noticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/hash.h"
#include "common/base/ids.h"
#include "server/plan/cache/example_bytes.h"

namespace millrace::test {

inline Digest128 CacheKey(std::uint64_t number) {
  return Xxh3(std::as_bytes(std::span(&number, 1)));
}

inline std::vector<std::byte> CacheBytes(std::uint64_t number, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = number * 2 + 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

inline ExamplePtr CacheValue(std::uint64_t number, std::size_t size) {
  return ExampleBytes::Copy(CacheBytes(number, size));
}

inline bool Holds(const ExamplePtr& value, std::uint64_t number, std::size_t size) {
  if (value == nullptr || value->bytes().size() != size) return false;
  const std::vector<std::byte> bytes = CacheBytes(number, size);
  return std::equal(bytes.begin(), bytes.end(), value->bytes().begin());
}

}  // namespace millrace::test
