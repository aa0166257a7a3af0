// Names of examples, by which a cache finds them.
//
// Immutable; thread-safe.
#pragma once

#include <span>

#include "common/base/ids.h"

namespace millrace {

class ExampleNames {
 public:
  virtual ~ExampleNames() = default;

  /// Gives examples their names. A name is a digest of all data of the dataset that enter the
  /// example's tensors, and of the numbers by which its values refer to rows of the source's
  /// tables. The same operations build two examples of one name alike, whatever their datasets,
  /// except for their ids: the ids, and so the order of examples, are not part of the name. The
  /// name of an example that cannot be named, such as one whose place in the dataset is damaged, is
  /// not set. Takes O(1) for each. REQUIRES: the source has the examples; there is room for as many
  /// names.
  virtual void Name(std::span<const ExampleId> ids, std::span<Digest128> names) const = 0;
};

}  // namespace millrace
