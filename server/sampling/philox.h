// Philox4x32-10: random words from a counter and a key. Salmon, Moraes, Dror and Shaw, "Parallel
// random numbers: as easy as 1, 2, 3" (2011), section 4.3; the words equal the words of their
// library Random123.
//
// Pure functions.
#pragma once

#include <array>
#include <cstdint>

namespace millrace {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxWords = std::array<std::uint32_t, 4>;

namespace internal {

inline constexpr std::uint32_t kPhiloxMultipliers[2] = {0xD2511F53, 0xCD9E8D57};
inline constexpr std::uint32_t kPhiloxKeySteps[2] = {0x9E3779B9, 0xBB67AE85};
inline constexpr int kPhiloxRounds = 10;

}  // namespace internal

/// The four words of a counter. The low half of `key` is the first word of Philox's key.
constexpr PhiloxWords Philox4x32(std::uint64_t key, PhiloxCounter counter) {
  auto low = static_cast<std::uint32_t>(key);
  auto high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < internal::kPhiloxRounds; ++round) {
    const std::uint64_t a = std::uint64_t{internal::kPhiloxMultipliers[0]} * counter[0];
    const std::uint64_t b = std::uint64_t{internal::kPhiloxMultipliers[1]} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<std::uint32_t>(a)};
    low += internal::kPhiloxKeySteps[0];
    high += internal::kPhiloxKeySteps[1];
  }
  return counter;
}

}  // namespace millrace
