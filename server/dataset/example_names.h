// Names of examples: what a cache knows an example by.
//
// Immutable; thread-safe.
#pragma once

#include <optional>

#include "common/base/ids.h"

namespace millrace {

class ExampleNames {
 public:
  virtual ~ExampleNames() = default;

  /// A digest of all data of the dataset that enter the example's tensors, and of the numbers by
  /// which its values refer to rows of the source's tables. Two examples of one name, of whatever
  /// datasets, are built alike by the same operations, apart from their ids: the ids themselves,
  /// and so the order of examples, are no part of it. None for an example that cannot be named,
  /// such as one whose place in the dataset is damaged. Takes O(1). REQUIRES: the source has the
  /// example.
  virtual std::optional<Digest128> Of(ExampleId id) const = 0;
};

}  // namespace millrace
