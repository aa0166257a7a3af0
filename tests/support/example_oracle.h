// Protobuf's reading of tf.train.Example, as the oracle for the parser that is written by hand, and
// Examples that are legal but oddly encoded.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "server/kinds/records/format/feature_values.h"

namespace millrace::test {

struct PlainFeature {
  FeatureKind kind = FeatureKind::kAbsent;
  std::vector<std::string> bytes;
  std::vector<std::uint32_t> floats;  // their bits
  std::vector<std::int64_t> ints;

  friend bool operator==(const PlainFeature&, const PlainFeature&) = default;
};
using PlainExample = std::map<std::string, PlainFeature>;

/// None if protobuf refuses the bytes.
std::optional<PlainExample> ReadByProtobuf(std::string_view example);
/// Protobuf's deterministic serialization.
std::string WriteByProtobuf(const PlainExample& example);

/// Reads the bytes by protobuf, by ExampleParser and by ExampleLister. Says in what they differ; ""
/// if they agree.
std::string DifferenceFromProtobuf(std::string_view example);

PlainExample RandomExample(std::mt19937_64& random);
/// Random wire bytes of an Example: lists packed or not, fields out of order and several times,
/// unknown fields, wire types that do not fit, long varints. Some are not well formed.
std::string RandomEncoding(std::mt19937_64& random);
/// The bytes with a few changes: flipped, dropped, doubled, cut off.
std::string Mutated(std::string bytes, std::mt19937_64& random);

}  // namespace millrace::test
