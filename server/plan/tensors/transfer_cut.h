// The transfer cut: the tensors that travel from worker to consumer. It is the least-weight set of
// tensors that every path from a source to an output crosses. Among such sets it is the one nearest
// the outputs.
//
// The weight of a tensor is its packed bytes per example, estimated from its type: a ragged axis
// and nodes count as 64, edges as 128, the pieces of a packed row as 4. What is computed from the
// lengths of pieces has a weight above all others: it is left to the consumer.
//
// It is found as a minimum cut of a network. Each tensor has two ends, in and out, joined with its
// weight. The worker's side feeds the in of every tensor that only a worker can make, and of every
// tensor pinned to it. Outputs feed the consumer's side, and so does the in of every tensor that is
// pinned to the consumer. The out of a tensor feeds the in of each tensor that reads it.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/operations/tensor_graph.h"

namespace millrace {

/// A tensor as the cut sees it.
struct CutTensor {
  std::vector<std::size_t> inputs;  // numbers of tensors, all smaller than this one's
  std::uint64_t weight = 1;         // at least 1
  bool at_worker = false;           // it has to be made at the worker
  bool at_consumer = false;         // it has to be made at the consumer
  bool output = false;
};

/// The numbers of the transfer cut's tensors, ascending. REQUIRES: no tensor has to be made at both
/// places.
std::vector<std::size_t> LeastCut(std::span<const CutTensor> tensors);

/// Estimated bytes of a tensor per example.
std::uint64_t TransferWeight(const TensorType& type);

struct TransferCut {
  std::vector<std::size_t> tensors;  // nodes of the graph, in the order of a payload
  std::vector<bool> at_worker;       // for each node, whether the worker makes it
  std::vector<bool> at_consumer;     // likewise; some are made at both places
};

/// The transfer cut of a graph. Errors of TensorGraph::Bind.
Result<TransferCut> FindTransferCut(const TensorGraph& graph);

}  // namespace millrace
