// Names of the examples of a Coq dataset.
//
// The bytes of an example come from the example's file and the files that it depends on, directly
// or not. They have numbers of node labels, tactics and contexts. Labels of a file are consecutive,
// so the first one stands for all of them. So a file's digest is made of its name, the digest of
// its bytes, its first label, whether the plan excludes it, and the digests of the files that it
// depends on. A name is made of the digest of the example's file, the place of the example in the
// file, and the numbers of its tactic and context.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "server/kinds/coq/coq_tables.h"

namespace millrace {

class CoqNames {
 public:
  /// The place of an example in a dataset, and the numbers that it has in the plan.
  struct Place {
    std::uint32_t file = 0;
    std::uint32_t node = 0;  // of the definition, in the file
    std::uint32_t step = 0;  // of the proof
    std::uint32_t outcome = 0;
    std::uint32_t tactic = 0;
    std::uint32_t context = 0;
  };

  explicit CoqNames(const CoqTables& tables);

  /// REQUIRES: the dataset has the file.
  Digest128 Of(const Place& place) const;

 private:
  std::vector<Digest128> files_;
};

}  // namespace millrace
