// The facts about its batches that a session knows before the first batch comes, and the tables
// that batches refer to.
//
// Thread-compatible value types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/batch/layout/drop_reasons.h"
#include "common/batch/layout/layout.h"
#include "common/epoch/position.h"

namespace millrace {

/// One tensor that every batch has.
struct DeliveredTensorSpec {
  std::string path;
  TensorKind kind = TensorKind::kDense;
  DType packed_dtype = DType::kUint8;
  DType dtype = DType::kInt32;          // as delivered to this session
  std::vector<std::string> dimensions;  // outermost first: "batch", "nodes", "edges", …
  std::string splits;                   // path of the tensor that cuts this one; empty: none
  std::string expansion;  // its role among the tensors: "node_offset", "edge_source", … or "widen"
  std::int64_t min = 0;   // inclusive bounds of the packed values
  std::uint64_t max = 0;
};

struct BatchSpec {
  std::vector<DeliveredTensorSpec> tensors;
  std::string source;  // proof_states, definitions, …
  StepOptions steps;   // number of examples, batch sizes, remainder and world size
  ExpandSpec expand;
  DropReasonNames drop_reasons;        // batches have only the numbers of the reasons
  std::uint64_t node_labels = 0;       // number of classes and definitions
  std::uint64_t base_node_labels = 0;  // number of classes
  std::uint64_t edge_labels = 0;       // number of labels of delivered edges
  std::uint64_t tactics = 0;
  std::uint64_t contexts = 0;
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t left_out_per_epoch = 0;  // examples that `remainder: drop` leaves out
  std::uint64_t max_batch_bytes = 0;     // upper estimate of a packed batch; 0: unknown
  Fingerprint fingerprint;               // of the plan
  Fingerprint order_fingerprint;         // the same with an empty `exclude`; cursors hold it
  Position start;                        // position of the first batch
};

struct TacticEntry {
  std::int64_t ident = 0;
  std::string base_text;
  std::uint32_t arguments = 0;
  std::uint64_t count = 0;  // how often it occurs in the dataset
};

/// Names for the numbers in batches. The number of an entry is its place in the list.
struct VocabularyTable {
  std::vector<std::string> node_label_names;    // classes, then one name for each definition
  std::vector<std::int64_t> node_label_idents;  // 0 for classes
  std::vector<std::string> edge_label_names;    // of the base labels
  std::vector<TacticEntry> tactics;
  std::vector<std::string> files;             // files of the dataset, in order
  std::vector<std::uint32_t> labels_of_file;  // how many labels each file has; they are consecutive
};

}  // namespace millrace
