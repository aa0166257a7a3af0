// Reads a tf.train.Example as protobuf defines it:
//
//   message Example { Features features = 1; }
//   message Features { map<string, Feature> feature = 1; }
//   message Feature { oneof kind {
//     BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
//
// where each list is `repeated … value = 1`, packed or not. The last entry with a key counts; parts
// of a repeated message are merged; a later list of another kind replaces the one before; unknown
// fields are skipped. Bytes that protobuf's parser refuses are refused.
//
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/kinds/records/format/feature_values.h"

namespace millrace {

/// Reads wanted features of one Example after another.
class ExampleParser {
 public:
  /// REQUIRES: the names differ.
  explicit ExampleParser(std::vector<std::string> names);

  /// Reads an Example. False if these bytes are not one; then features have no meaning. The
  /// features that it gives are valid until the next call, and as long as the bytes.
  bool Parse(std::span<const std::byte> example);

  /// Whether the bytes have the lists of a tf.train.SequenceExample. Read as an Example they have
  /// its context alone.
  bool is_sequence() const { return has_lists_; }

  const std::vector<std::string>& names() const { return names_; }
  /// The values of the feature with the i-th name.
  const FeatureValues& feature(std::size_t i) const { return features_[i]; }

 private:
  /// The feature's number, or names_.size() if nobody wants it.
  std::size_t Find(std::string_view name);

  std::vector<std::string> names_;
  std::vector<std::size_t> by_name_;  // numbers of features, sorted by name, if they are many
  std::vector<FeatureValues> features_;
  bool has_lists_ = false;
  std::size_t guess_ = 0;  // the feature after the one found last: most Examples have one order
};

/// Lists all features of one Example after another.
class ExampleLister {
 public:
  struct Feature {
    std::string_view name;  // refers to the Example
    FeatureKind kind = FeatureKind::kAbsent;
    std::size_t count = 0;  // of values
  };

  /// Reads an Example. False if these bytes are not one; then features() is empty.
  bool Parse(std::span<const std::byte> example);

  /// As ExampleParser::is_sequence.
  bool is_sequence() const { return has_lists_; }
  /// Sorted by name; no name occurs twice. Valid until the next call, and as long as the bytes.
  std::span<const Feature> features() const { return features_; }

 private:
  void KeepLastOfEachName();

  std::vector<Feature> features_;
  bool has_lists_ = false;
};

}  // namespace millrace
