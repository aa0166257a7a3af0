// The common shape of the features of many Examples: kinds and numbers of values, from which
// `millrace import` says how to read them.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "server/kinds/records/format/example_parser.h"

namespace millrace::python {

/// A range of counts, of which the first one seen is both ends.
struct CountRange {
  std::uint64_t least = 0;
  std::uint64_t most = 0;

  void Add(std::uint64_t count, bool first);
};

struct FeatureShape {
  std::set<FeatureKind> kinds;  // never kAbsent
  std::uint64_t examples = 0;   // that have the feature
  CountRange values;            // of an example
  CountRange bytes;             // of a value, if its kind is kBytes
  bool has_bytes = false;       // whether any value of kind kBytes was seen
};

class FeatureShapes {
 public:
  /// Notes the features of an Example. False if these bytes are not one; then nothing is noted.
  bool Note(std::span<const std::byte> example);

  const std::map<std::string, FeatureShape, std::less<>>& by_name() const { return by_name_; }

 private:
  ExampleLister lister_;
  /// Reads the features that have been of kind kBytes, for the lengths of their values. Null if
  /// there is no such feature.
  std::unique_ptr<ExampleParser> parser_;
  std::vector<FeatureShape*> parsed_;  // what the parser reads, in its order
  std::map<std::string, FeatureShape, std::less<>> by_name_;
};

}  // namespace millrace::python
