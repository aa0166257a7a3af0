// The loops over tokens: copied as they travel, checked meanwhile, and searched for one of them.
//
// Pure functions. The bytes that are read may change at any moment: each value is loaded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/dtype.h"

namespace millrace {

/// A value that no token may have.
struct WrongToken {
  std::uint64_t place = 0;  // among those that were copied
  std::int64_t value = 0;
};

/// Copies tokens of a file as TravelType(dtype) to `to`, which has room for them. `to` may then
/// hold anything if a value is not one of 0 … `largest`; the first such one is returned. REQUIRES:
/// IsTokenType(dtype); `largest` is at most LargestTokenOf(dtype); `from` has whole values.
std::optional<WrongToken> CopyTokens(DType dtype, std::span<const std::byte> from,
                                     std::uint64_t largest, std::byte* to);

/// Appends the places where `token` is among the values. REQUIRES: IsTokenType(dtype); `token` is
/// at most LargestTokenOf(dtype); `from` has whole values, fewer than 2^32.
void FindTokens(DType dtype, std::span<const std::byte> from, std::uint64_t token,
                std::vector<std::uint32_t>& places);

/// The value at the beginning of `from`. REQUIRES: there is one.
std::int64_t TokenAt(DType dtype, std::span<const std::byte> from);

}  // namespace millrace
