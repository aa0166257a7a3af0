// Encodes a tf.train.Example (example_parser.h) canonically: features sorted by name, lists packed,
// varints as short as possible. Protobuf's deterministic serialization gives the same bytes.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

class ExampleBuilder {
 public:
  /// Forgets the features, and keeps the memory.
  void Clear() { count_ = 0; }

  /// Adds a feature. Its kind is set even if there are no values. REQUIRES: no other feature has
  /// the name since Clear; the name is UTF-8.
  void AddBytes(std::string_view name, std::span<const std::string_view> values);
  void AddBytes(std::string_view name, std::string_view value) {
    AddBytes(name, std::span(&value, 1));
  }
  void AddFloats(std::string_view name, std::span<const float> values);
  void AddInts(std::string_view name, std::span<const std::int64_t> values);

  /// The Example with all features since Clear. Valid until the builder is changed.
  std::span<const std::byte> Finish();

 private:
  struct Entry {
    std::string name;
    std::string feature;  // the message Feature
  };

  /// The Feature of a new entry, which is empty.
  std::string& Begin(std::string_view name);

  std::vector<Entry> entries_;  // the first count_ are in use
  std::size_t count_ = 0;
  std::string list_;
  std::string features_;
  std::string example_;
};

}  // namespace millrace
