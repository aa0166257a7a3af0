// The keys of the generators that plugins are given.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

/// The two words of a Philox key, as numpy.random.Philox takes them.
struct ChanceKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const ChanceKey&, const ChanceKey&) = default;
};

/// The key of one example in one pass: XXH3-128 of the ASCII text `seed/epoch/example/fingerprint`,
/// numbers decimal. `fingerprint` is that of the operation, in hex.
ChanceKey MakeChanceKey(std::uint64_t seed, std::uint64_t epoch, std::uint64_t example,
                        std::string_view fingerprint);

}  // namespace millrace
