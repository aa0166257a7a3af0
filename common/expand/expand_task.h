// The input of the expansion kernel (expand_kernel.h): a table of tasks, one for each tensor, group
// of edges, run of padding or run of equal values, and the memory that they work on.
//
// C++17 without headers of the project, because nvcc compiles it too.
#pragma once

#include <cstdint>

namespace millrace::kernel {

enum class Op : std::uint8_t {
  kWiden,       // elements: values
  kCopy,        // elements: words as wide as the type of `in`
  kBools,       // elements: bytes; each is 0 or 1
  kSplits,      // elements: rows and one more; the values begin with 0
  kNodeOffset,  // elements: values; a node number of the example becomes one of the batch
  kEdges,       // elements: base edges; each is written once, or also reversed
  kSelfEdges,   // elements: nodes; each gets a self-loop
  kEdgeSplits,  // elements: rows and one more
  kPadding,     // elements: bytes to be zeroed
  kFill,        // elements: words as wide as the type of `in`; each becomes `value`
};

/// The integers among the types of values; DType defines the numbers.
enum class Type : std::uint8_t { kUint8, kUint16, kUint32, kUint64, kInt8, kInt16, kInt32, kInt64 };

enum class Mirror : std::uint8_t { kNone, kUndirected, kBidirectional };  // as Symmetrization

/// A tensor in the payload.
struct Column {
  std::uint64_t offset = 0;  // from the payload's start
  Type type = Type::kUint8;
};

/// Output offsets count from the start of the delivered batch.
struct Task {
  Op op = Op::kPadding;
  Mirror mirror = Mirror::kNone;
  bool self_edges = false;
  // For kNodeOffset. true: `splits` says which row an element belongs to; false: element i is in
  // row i.
  bool cut = false;
  // For kNodeOffset. true: the batch is one graph, to whose nodes all elements refer.
  bool merged = false;
  // For edges. false: there are no labels, as all edges have label 0.
  bool labelled = false;
  std::uint32_t base_labels = 0;  // for edges
  std::uint64_t first_tile = 0;
  std::uint64_t first = 0;  // first element in the packed tensor
  std::uint64_t count = 0;  // number of elements
  Column in;                // the values; for edges: the sources
  Column target;            // for edges
  Column label;             // for edges that are labelled
  Column splits;            // the splits that cut the elements
  Column node_splits;
  std::uint64_t out = 0;  // for edges: the sources
  std::uint64_t out_target = 0;
  std::uint64_t out_label = 0;
  std::uint64_t value = 0;  // for kFill
};

/// The input of one launch. The memory is the device's, except `error`, which the host reads too.
struct Launch {
  const unsigned char* payload = nullptr;
  unsigned char* out = nullptr;
  const Task* tasks = nullptr;
  std::uint32_t task_count = 0;
  bool wide = false;  // true: int64, false: int32
  std::uint64_t tiles = 0;
  // The graphs: rows of the splits of nodes and edges.
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;  // at least 1 if a task has elements that belong to rows
  std::uint32_t* error = nullptr;
};

}  // namespace millrace::kernel
