// Which outcome of the index each proof-state example of a plan is. Nothing where the plan takes
// all of them, else 1.2 bits an outcome, and with restrict_to_spine 8 bytes a definition.
//
// Immutable; thread-safe. Refers to the index, which has to outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/coq/source/node_labels.h"
#include "server/dataset/coq/source/tactic_table.h"
#include "server/pipeline/order/ranked_bitmap.h"

namespace millrace {

class ExampleTable {
 public:
  /// `definitions`, where given, receives the definitions with examples, in the order of their
  /// examples.
  ExampleTable(const DatasetIndex& index, const NodeLabels& labels, const TacticTable& tactics,
               bool restrict_to_spine, std::vector<std::uint32_t>* definitions = nullptr);

  std::uint64_t size() const { return size_; }
  /// Number of the example's outcome in the index. O(1) where the plan takes all outcomes in their
  /// order, O(log definitions) otherwise. REQUIRES: example < size().
  std::uint32_t Outcome(std::uint64_t example) const;

  /// The outcomes of examples that follow one another. Not thread-safe.
  class Walk {
   public:
    /// REQUIRES: first <= table.size(). Refers to the table.
    Walk(const ExampleTable& table, std::uint64_t first);
    /// Outcome of the next example. REQUIRES: there is one.
    std::uint32_t Next();

   private:
    const ExampleTable& table_;
    std::uint64_t example_;
    std::uint64_t jump_;     // the example at which the next outcome is not the next one kept
    std::uint64_t outcome_;  // from here on
  };

 private:
  /// The examples of one definition: from `first_example` on, the kept outcomes from rank
  /// `first_rank` on. Outcomes have numbers below 2^32.
  struct Run {
    std::uint32_t first_example;
    std::uint32_t first_rank;
  };

  /// The run of an example. REQUIRES: there are runs, and example < size().
  std::size_t RunOf(std::uint64_t example) const;

  std::uint64_t size_ = 0;
  bool all_ = true;        // example numbers are outcome numbers
  RankedBitmap kept_;      // outcomes, unless all_
  std::vector<Run> runs_;  // only where the order differs from the index's
};

}  // namespace millrace
