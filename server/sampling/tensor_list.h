// The tensors of a source whose examples are graphs.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/batch/layout/layout.h"
#include "server/sampling/closure_options.h"
#include "server/sampling/edge_groups.h"

namespace millrace {

/// Numbers of the tensors that hold graphs.
struct GraphTensors {
  std::size_t node_label;
  EdgeTensors edges;
};

/// A list of tensors under construction.
class TensorList {
 public:
  /// Adds the tensor, with the narrowest type for [min, max], and returns its number.
  std::size_t Add(std::string path, TensorKind kind, std::string dimension, std::int64_t min,
                  std::uint64_t max, std::string splits = "",
                  Expansion expansion = Expansion::kWiden);
  /// Adds a splits tensor. Its type is uint32, whatever the batch size, so that tools can build
  /// batches of any size.
  std::size_t AddSplits(std::string path, Expansion expansion = Expansion::kWiden);
  /// Adds node and edge tensors with their splits. `nodes`: number of nodes of the largest example.
  GraphTensors AddGraph(std::uint64_t node_labels, std::uint64_t edge_labels, std::uint64_t nodes);

  std::vector<TensorSpec> Take() { return std::move(tensors_); }

 private:
  std::vector<TensorSpec> tensors_;
};

/// Upper bound for node numbers of a plan: `max_subgraph_size`, or kMaxExampleNodes if an example
/// has more roots than that.
std::uint64_t NodeBound(const ClosureOptions& closure, std::uint64_t max_roots);

}  // namespace millrace
