// What a session knows of its batches before the first one comes, and the tables that batches refer
// to.
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

/// One tensor of every batch.
struct DeliveredTensorSpec {
  std::string path;
  TensorKind kind = TensorKind::kDense;
  DType packed_dtype = DType::kUint8;
  DType dtype = DType::kInt32;          // as delivered to this session
  std::vector<std::string> dimensions;  // outermost first: "batch", "nodes", "edges", …
  std::string splits;                   // path of the tensor that cuts this one; empty: none
  std::string expansion;  // what it is among the others: "node_offset", "edge_source", … or "widen"
  std::int64_t min = 0;  // bounds of the packed values, inclusive
  std::uint64_t max = 0;
};

struct BatchSpec {
  std::vector<DeliveredTensorSpec> tensors;
  std::string source;  // proof_states, definitions, …
  StepOptions steps;   // examples, sizes, remainder, world size
  ExpandSpec expand;
  DropReasonNames drop_reasons;        // names of the reasons that batches have as numbers
  std::uint64_t node_labels = 0;       // classes and definitions
  std::uint64_t base_node_labels = 0;  // classes
  std::uint64_t edge_labels = 0;       // of delivered edges
  std::uint64_t tactics = 0;
  std::uint64_t contexts = 0;
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t left_out_per_epoch = 0;  // examples that `remainder: drop` leaves out
  std::uint64_t max_batch_bytes = 0;     // upper estimate of a packed batch; 0: unknown
  Fingerprint fingerprint;               // of the plan
  Fingerprint order_fingerprint;         // what a cursor holds
  Position start;                        // of the first batch
};

struct TacticEntry {
  std::int64_t ident = 0;
  std::string base_text;
  std::uint32_t arguments = 0;
  std::uint64_t count = 0;  // occurrences in the dataset
};

/// Names of what batches hold as numbers. The number of an entry is its place in the list.
struct VocabularyTable {
  std::vector<std::string> node_label_names;    // classes, then one a definition
  std::vector<std::int64_t> node_label_idents;  // 0 for the classes
  std::vector<std::string> edge_label_names;    // base labels
  std::vector<TacticEntry> tactics;
  std::vector<std::string> files;             // of the dataset, in order
  std::vector<std::uint32_t> labels_of_file;  // definitions with a label; they follow one another
};

}  // namespace millrace
