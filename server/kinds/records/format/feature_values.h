// The values of one feature of a tf.train.Example.
//
// Thread-compatible. The values refer to the bytes of the Example, and to memory of this object,
// which it keeps for the next Example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace millrace {

enum class FeatureKind : std::uint8_t {
  kAbsent,  // not in the Example, or there without a kind
  kBytes,
  kFloat,
  kInt64,
};
/// "absent", "bytes", "float" or "int64".
std::string_view FeatureKindName(FeatureKind kind);

class FeatureValues {
 public:
  FeatureKind kind() const { return kind_; }
  /// 0 if it is absent.
  std::size_t count() const { return count_; }

  /// The values of a feature of kind kBytes, one span each. Empty for other kinds.
  std::span<const std::span<const std::byte>> bytes() const { return bytes_; }
  /// The values of a feature of kind kFloat: 4 * count() bytes, little endian, at any address.
  /// Empty for other kinds.
  std::span<const std::byte> float_bytes() const { return joined_.empty() ? run_ : joined_; }
  /// The values of a feature of kind kInt64. Empty for other kinds.
  std::span<const std::int64_t> ints() const { return ints_; }

  /// The calls of a parser, in the order of the bytes.
  void Reset();
  /// A list of this kind begins. It extends lists of the same kind, and replaces lists of other
  /// kinds.
  void BeginList(FeatureKind kind);
  void AddBytes(std::span<const std::byte> value);
  /// Values as stored. REQUIRES: a multiple of 4 bytes.
  void AddFloats(std::span<const std::byte> values);
  void AddInt(std::uint64_t value);
  /// Varints as stored. False if one is cut off or too long.
  bool AddInts(std::span<const std::byte> varints);

 private:
  FeatureKind kind_ = FeatureKind::kAbsent;
  std::size_t count_ = 0;
  std::vector<std::span<const std::byte>> bytes_;
  std::span<const std::byte> run_;  // floats that are in one piece in the Example
  std::vector<std::byte> joined_;   // floats that do not
  std::vector<std::int64_t> ints_;
};

/// Counts and checks the values of a feature, without keeping them.
class FeatureCount {
 public:
  FeatureKind kind() const { return kind_; }
  std::size_t count() const { return count_; }

  void Reset() { *this = FeatureCount(); }
  void BeginList(FeatureKind kind) {
    if (kind != kind_) count_ = 0;
    kind_ = kind;
  }
  void AddBytes(std::span<const std::byte>) { ++count_; }
  void AddFloats(std::span<const std::byte> values) { count_ += values.size() / 4; }
  void AddInt(std::uint64_t) { ++count_; }
  bool AddInts(std::span<const std::byte> varints);

 private:
  FeatureKind kind_ = FeatureKind::kAbsent;
  std::size_t count_ = 0;
};

inline void FeatureValues::Reset() {
  kind_ = FeatureKind::kAbsent;
  count_ = 0;
  bytes_.clear();
  run_ = {};
  joined_.clear();
  ints_.clear();
}

inline void FeatureValues::BeginList(FeatureKind kind) {
  if (kind == kind_) return;
  Reset();
  kind_ = kind;
}

inline void FeatureValues::AddBytes(std::span<const std::byte> value) {
  bytes_.push_back(value);
  ++count_;
}

inline void FeatureValues::AddInt(std::uint64_t value) {
  ints_.push_back(static_cast<std::int64_t>(value));
  ++count_;
}

}  // namespace millrace
