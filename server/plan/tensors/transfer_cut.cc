#include "server/plan/tensors/transfer_cut.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include <fmt/core.h>

#include "common/operations/pack_names.h"

namespace millrace {
namespace {

constexpr std::uint64_t kRaggedLength = 64;
constexpr std::uint64_t kPieces = 4;  // of a packed row
constexpr std::uint64_t kNodes = 64;
constexpr std::uint64_t kEdges = 128;
// Above the weight of any tensor, and low enough to be added.
constexpr std::uint64_t kImplicit = std::uint64_t{1} << 48;
// Far above the sum of all weights.
constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 62;

/// A network of ends with capacities. Flow is sent along shortest paths.
class Network {
 public:
  explicit Network(std::size_t ends) : arcs_of_(ends) {}

  void Join(std::size_t from, std::size_t to, std::uint64_t capacity) {
    arcs_of_[from].push_back(arcs_.size());
    arcs_.push_back({to, capacity});
    arcs_of_[to].push_back(arcs_.size());
    arcs_.push_back({from, 0});  // the way back
  }

  void Fill(std::size_t from, std::size_t to) {
    while (Augment(from, to)) {
    }
  }

  /// The ends from which more could flow to `to`.
  std::vector<bool> Reaching(std::size_t to) const {
    std::vector<bool> reaches(arcs_of_.size(), false);
    reaches[to] = true;
    std::vector<std::size_t> open = {to};
    while (!open.empty()) {
      const std::size_t end = open.back();
      open.pop_back();
      for (const std::size_t arc : arcs_of_[end]) {
        const std::size_t before = arcs_[arc].to;
        if (reaches[before] || arcs_[arc ^ 1].left == 0) continue;
        reaches[before] = true;
        open.push_back(before);
      }
    }
    return reaches;
  }

 private:
  struct Arc {
    std::size_t to;
    std::uint64_t left;  // capacity that is not used
  };

  bool Augment(std::size_t from, std::size_t to) {
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> came_by(arcs_of_.size(), kNone);
    std::vector<std::size_t> open = {from};
    for (std::size_t i = 0; i < open.size() && came_by[to] == kNone; ++i) {
      for (const std::size_t arc : arcs_of_[open[i]]) {
        const std::size_t next = arcs_[arc].to;
        if (arcs_[arc].left == 0 || next == from || came_by[next] != kNone) continue;
        came_by[next] = arc;
        open.push_back(next);
      }
    }
    if (came_by[to] == kNone) return false;
    std::uint64_t more = kUnlimited;
    for (std::size_t end = to; end != from; end = arcs_[came_by[end] ^ 1].to) {
      more = std::min(more, arcs_[came_by[end]].left);
    }
    for (std::size_t end = to; end != from; end = arcs_[came_by[end] ^ 1].to) {
      arcs_[came_by[end]].left -= more;
      arcs_[came_by[end] ^ 1].left += more;
    }
    return true;
  }

  std::vector<Arc> arcs_;  // an arc and its way back lie beside each other
  std::vector<std::vector<std::size_t>> arcs_of_;
};

bool WorkerOnly(const TensorNode& node) {
  return node.operation == nullptr || node.operation->worker_only;
}

/// Marks `needed` and all that they are made of, up to what `given` says.
std::vector<bool> Made(const TensorGraph& graph, std::vector<bool> needed,
                       const std::vector<bool>& given) {
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!needed[i] || given[i]) continue;
    for (const std::size_t input : graph.nodes()[i].inputs) needed[input] = true;
  }
  for (std::size_t i = 0; i < needed.size(); ++i) needed[i] = needed[i] && !given[i];
  return needed;
}

}  // namespace

std::vector<std::size_t> LeastCut(std::span<const CutTensor> tensors) {
  const auto in = [](std::size_t tensor) { return 2 * tensor; };
  const auto out = [](std::size_t tensor) { return 2 * tensor + 1; };
  const std::size_t worker = 2 * tensors.size();
  const std::size_t consumer = worker + 1;
  Network network(consumer + 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const CutTensor& tensor = tensors[i];
    assert(!tensor.at_worker || !tensor.at_consumer);
    network.Join(in(i), out(i), tensor.weight);
    if (tensor.at_worker) network.Join(worker, in(i), kUnlimited);
    if (tensor.at_consumer) network.Join(in(i), consumer, kUnlimited);
    if (tensor.output) network.Join(out(i), consumer, kUnlimited);
    for (const std::size_t input : tensor.inputs) network.Join(out(input), in(i), kUnlimited);
  }
  network.Fill(worker, consumer);
  const std::vector<bool> at_consumer = network.Reaching(consumer);
  std::vector<std::size_t> cut;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!at_consumer[in(i)] && at_consumer[out(i)]) cut.push_back(i);
  }
  return cut;
}

std::uint64_t TransferWeight(const TensorType& type) {
  std::uint64_t weight = type.UnitBytes();
  if (type.ragged) weight *= kRaggedLength;
  if (type.rows == "nodes") weight *= kNodes;
  if (type.rows == "edges") weight *= kEdges;
  return weight;
}

Result<TransferCut> FindTransferCut(const TensorGraph& graph) {
  std::vector<CutTensor> tensors;
  for (const TensorNode& node : graph.nodes()) {
    CutTensor tensor;
    tensor.inputs = node.inputs;
    tensor.weight = TransferWeight(node.type);
    tensor.at_worker = WorkerOnly(node) || node.at == RunPlace::kWorker;
    tensor.at_consumer = node.at == RunPlace::kConsumer;
    // What only widens a source's tensor is never worth sending.
    if (node.implicit) tensor.weight = kImplicit;
    // Nor is what follows from the lengths of pieces.
    if (node.operation != nullptr && node.operation->of_rows) tensor.weight = kImplicit;
    if (node.operation == nullptr && IsOfPieces(node.name)) {
      tensor.weight = std::max<std::uint64_t>(1, tensor.weight / kRaggedLength * kPieces);
    }
    if (tensor.at_worker && tensor.at_consumer) {
      return InvalidArgument(fmt::format("{}: at: only a worker can make it", node.name));
    }
    tensors.push_back(std::move(tensor));
  }
  for (const TensorOutput& output : graph.outputs()) tensors[output.node].output = true;
  TransferCut transfer_cut;
  transfer_cut.tensors = LeastCut(tensors);
  const auto& nodes = graph.nodes();
  const auto is_source = [&](std::size_t node) { return nodes[node].operation == nullptr; };
  std::sort(transfer_cut.tensors.begin(), transfer_cut.tensors.end(),
            [&](std::size_t a, std::size_t b) {
              if (is_source(a) != is_source(b)) return is_source(a);
              return is_source(a) ? a < b : nodes[a].name < nodes[b].name;
            });
  std::vector<bool> travels(nodes.size(), false);
  for (const std::size_t tensor : transfer_cut.tensors) travels[tensor] = true;
  std::vector<bool> outputs(nodes.size(), false);
  for (const TensorOutput& output : graph.outputs()) outputs[output.node] = true;
  transfer_cut.at_worker = Made(graph, travels, std::vector<bool>(nodes.size(), false));
  transfer_cut.at_consumer = Made(graph, outputs, travels);
  return transfer_cut;
}

}  // namespace millrace
