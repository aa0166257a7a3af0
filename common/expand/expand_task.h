// What the expansion kernel (expand_kernel.h) is told to do: a table of tasks, one for each tensor,
// group of edges or run of padding, and the memory that they are about.
//
// C++17 without headers of the project: nvcc compiles it too.
#pragma once

#include <cstdint>

namespace millrace::kernel {

inline constexpr std::uint64_t kTileElements = 2048;

enum class Op : std::uint8_t {
  kWiden,       // elements: values
  kBytes,       // elements: bytes
  kSplits,      // elements: rows and one more, counted from the first
  kNodeOffset,  // elements: values; a node of its example becomes one of the batch
  kEdges,       // elements: base edges; each is written once, or also reversed
  kSelfEdges,   // elements: nodes
  kEdgeSplits,  // elements: rows and one more
  kPadding,     // elements: bytes to be zeroed
};

/// Numbers as in DType.
enum class Type : std::uint8_t { kUint8, kUint16, kUint32, kUint64, kInt8, kInt16, kInt32, kInt64 };

enum class Mirror : std::uint8_t { kNone, kUndirected, kBidirectional };  // as Symmetrization

/// A tensor of the payload.
struct Column {
  std::uint64_t offset = 0;  // from the payload's begin
  Type type = Type::kUint8;
};

/// Offsets of what is written are from the delivered batch's begin.
struct Task {
  Op op = Op::kPadding;
  Mirror mirror = Mirror::kNone;
  bool self_edges = false;
  bool cut = false;               // kNodeOffset: by `splits`; else element i is of row i
  std::uint32_t base_labels = 0;  // of edges
  std::uint64_t first_tile = 0;
  std::uint64_t first = 0;  // element of the packed tensor
  std::uint64_t count = 0;  // of elements
  Column in;                // values; of edges: the sources
  Column target;            // of edges
  Column label;             // of edges
  Column splits;            // that cut the elements
  Column node_splits;
  std::uint64_t out = 0;  // of edges: the sources
  std::uint64_t out_target = 0;
  std::uint64_t out_label = 0;
};

/// All that a launch is given. Memory is the device's, but for `error`, which the host reads too.
struct Launch {
  const unsigned char* payload = nullptr;
  unsigned char* out = nullptr;
  const Task* tasks = nullptr;
  std::uint32_t task_count = 0;
  bool wide = false;  // int64, else int32
  std::uint64_t tiles = 0;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;  // at least 1 where a task has elements that belong to rows
  std::uint32_t* error = nullptr;
};

}  // namespace millrace::kernel
