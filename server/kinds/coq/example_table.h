// Finds the outcome in the index for each proof-state example of a plan. It takes no memory if the
// plan takes all outcomes, otherwise 1.2 bits for each outcome. With restrict_to_spine it also
// takes 8 bytes for each definition.
//
// Immutable; thread-safe. Refers to the index, which must outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/node_labels.h"
#include "server/kinds/coq/tactic_table.h"
#include "server/source/ranked_bitmap.h"

namespace millrace {

class ExampleTable {
 public:
  /// `definitions`, if it is given, receives the definitions that have examples, in the order of
  /// their examples.
  ExampleTable(const DatasetIndex& index, const NodeLabels& labels, const TacticTable& tactics,
               bool restrict_to_spine, std::vector<std::uint32_t>* definitions = nullptr);

  std::uint64_t size() const { return size_; }
  /// The number of the example's outcome in the index. O(1) if the plan takes all outcomes in their
  /// order, otherwise O(log definitions). REQUIRES: example < size().
  std::uint32_t Outcome(std::uint64_t example) const;

  /// Walks over the outcomes of consecutive examples. Not thread-safe.
  class Walk {
   public:
    /// REQUIRES: first <= table.size(). Refers to the table.
    Walk(const ExampleTable& table, std::uint64_t first);
    /// The outcome of the next example. REQUIRES: there is a next example.
    std::uint32_t Next();

   private:
    const ExampleTable& table_;
    std::uint64_t example_;
    std::uint64_t jump_;     // the next example whose outcome is not the next kept one
    std::uint64_t outcome_;  // the outcome that was returned last
  };

 private:
  /// The examples of one definition, from `first_example` on. Their outcomes are the kept ones from
  /// rank `first_rank` on. Numbers of outcomes are below 2^32.
  struct Run {
    std::uint32_t first_example;
    std::uint32_t first_rank;
  };

  /// The run of an example. REQUIRES: there are runs, and example < size().
  std::size_t RunOf(std::uint64_t example) const;

  std::uint64_t size_ = 0;
  bool all_ = true;        // example numbers equal outcome numbers
  RankedBitmap kept_;      // the outcomes that have examples; used only if all_ is false
  std::vector<Run> runs_;  // empty if the order is the index's order
};

}  // namespace millrace
