// The facts about its batches that a session knows before the first batch comes.
//
// Thread-compatible value types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/tables.h"
#include "common/batch/layout/drop_reasons.h"
#include "common/batch/layout/layout.h"
#include "common/epoch/position.h"
#include "common/expand/delivery.h"
#include "common/operations/graph_pad.h"

namespace millrace {

/// A branch of a pipeline that mixes several sources.
struct BranchSpec {
  std::string name;
  std::string dataset;               // id
  std::uint64_t weight = 0;          // its share of an epoch is weight / sum of all weights
  std::uint64_t examples = 0;        // examples that it selects for one pass
  std::uint64_t rows_per_epoch = 0;  // places of an epoch that it has
  std::uint64_t first_example = 0;   // the number in the mix of its source's first example
  std::uint64_t source_examples = 0;
};

struct BatchSpec {
  std::vector<DeliveryTensor> tensors;  // as they are delivered, in their order
  std::optional<GraphPad> graph_pad;    // the size of every batch; absent: batches differ
  std::string source;                   // as in `source:` of the pipeline
  std::vector<BranchSpec> branches;     // in the order of the pipeline; empty without `branches`
  StepOptions steps;                    // number of units, batch sizes, remainder and world size
  ExpandSpec expand;
  DropReasonNames drop_reasons;   // batches have only the numbers of the reasons
  std::string token_tensor;       // of packed batches: its elements count as tokens; empty: none do
  std::vector<TableSpec> tables;  // what the numbers in batches refer to
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t examples_per_epoch = 0;  // of all units
  std::uint64_t left_out_per_epoch = 0;  // units that `remainder: drop` leaves out
  std::uint64_t max_batch_bytes = 0;     // upper estimate of a packed batch; 0: unknown
  Fingerprint fingerprint;               // of the plan
  Fingerprint order_fingerprint;         // the same with an empty `exclude`; cursors hold it
  Position start;                        // position of the first batch
};

}  // namespace millrace
