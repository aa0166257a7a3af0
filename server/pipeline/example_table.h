// Which outcome of the index each proof-state example of a plan is.
//
// Immutable; thread-safe. Refers to the index, which has to outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "server/dataset/dataset_index.h"
#include "server/pipeline/node_labels.h"
#include "server/pipeline/ranked_bitmap.h"
#include "server/pipeline/tactic_table.h"

namespace millrace {

class ExampleTable {
 public:
  ExampleTable(const DatasetIndex& index, const NodeLabels& labels, const TacticTable& tactics,
               bool restrict_to_spine);

  std::uint64_t size() const { return size_; }
  /// Number of the example's outcome in the index. O(1) where the plan takes all outcomes in their
  /// order, O(log definitions) otherwise. REQUIRES: example < size().
  std::uint32_t Outcome(std::uint64_t example) const;
  /// Definitions with examples, in the order of their examples.
  const std::vector<std::uint32_t>& definitions() const { return definitions_; }

 private:
  /// The examples of one definition: from `first_example` on, the kept outcomes from rank
  /// `first_rank` on.
  struct Run {
    std::uint64_t first_example;
    std::uint64_t first_rank;
  };

  std::uint64_t size_ = 0;
  bool all_ = true;        // example numbers are outcome numbers
  RankedBitmap kept_;      // outcomes, unless all_
  std::vector<Run> runs_;  // only where the order differs from the index's
  std::vector<std::uint32_t> definitions_;
};

}  // namespace millrace
