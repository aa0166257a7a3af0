// The keys of the generators that plugins get, and the seeds of Python's own generators.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// The version of the rules below. It is part of the identity of a plan that draws random numbers.
inline constexpr int kChanceVersion = 2;

/// The two words of a Philox key, as numpy.random.Philox takes them.
struct ChanceKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const ChanceKey&, const ChanceKey&) = default;
};

/// The origin of random numbers: no two origins draw the same.
struct ChanceOrigin {
  std::uint64_t seed = 0;
  std::string fingerprint;  // of the operation or the source, in hex
  /// The tensor that is made, of a branch `branch.name`; empty: a source, of which one build gives
  /// all chunks.
  std::string tensor;
  friend bool operator==(const ChanceOrigin&, const ChanceOrigin&) = default;
};

/// The key of one example in one pass: XXH3-128 of the text `seed/epoch/example/fingerprint`, for a
/// tensor followed by `/tensor/chunk`; numbers are decimal, and without a chunk nothing follows the
/// last slash.
ChanceKey MakeChanceKey(const ChanceOrigin& origin, std::uint64_t epoch, std::uint64_t example,
                        std::optional<std::uint64_t> chunk);

/// The seed of one of Python's own generators, so that no two have the same stream: XXH3-128 of
/// `key/generator`, the key in hex, high word first.
ChanceKey MakeSeed(const ChanceKey& key, std::string_view generator);

}  // namespace millrace
