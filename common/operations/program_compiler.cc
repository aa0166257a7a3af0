// Compiles a graph into a program: decides which tensors lie in memory, and which are only steps of
// the loops that read them.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/operations/program_plan.h"

namespace millrace {
namespace {

/// The name of a phase that runs these operations, one after another. Without any, it only widens a
/// tensor of the source, which no user has written.
std::string PhaseName(const std::vector<std::string>& operations) {
  if (operations.empty()) return "widen";
  constexpr std::size_t kRest = 16;  // bytes for the operations that have no room
  std::string name = operations.front().substr(0, ProgramPlan::kMaxPhaseName - kRest);
  for (std::size_t i = 1; i < operations.size(); ++i) {
    if (name.size() + 1 + operations[i].size() > ProgramPlan::kMaxPhaseName - kRest) {
      return name + fmt::format("+{} more", operations.size() - i);
    }
    name += "+" + operations[i];
  }
  return name;
}

}  // namespace

class ProgramCompiler {
 public:
  ProgramCompiler(const TensorGraph& graph, std::span<const std::size_t> inputs,
                  std::span<const ProgramOutput> outputs)
      : nodes_(graph.nodes()), readers_(nodes_.size(), 0) {
    for (const std::size_t input : inputs) {
      slots_.emplace(input, NewSlot(nodes_[input].type, nodes_[input].name));
    }
    plan_.inputs = inputs.size();
    plan_.outputs = outputs.size();
    CountReaders(outputs);
    // A node that is an output as it is gets written straight into the first such output's room.
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].pad) room_of_.emplace(outputs[i].node, i);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::size_t slot = InMemory(outputs[i].node);
      if (plan_.slots[slot].output != i) {
        plan_.deliveries.push_back({slot, i, outputs[i].pad, 0});
      }
    }
    // Deliveries come after all steps.
    for (ProgramPlan::Delivery& delivery : plan_.deliveries) {
      delivery.phase = AddPhase(delivery.pad ? "pad" : "copy");
    }
  }

  ProgramPlan Take() { return std::move(plan_); }

 private:
  /// Steps that read a slot and give a node.
  struct Chain {
    std::size_t from;
    LoopPlan plan;
    /// That users have written. One that follows itself comes once.
    std::vector<std::string> operations = {};

    void AppendName(const TensorNode& node) {
      if (node.implicit) return;
      const std::string& name = node.operation->name;
      if (operations.empty() || operations.back() != name) operations.push_back(name);
    }
  };

  /// The number of a phase that comes after all others.
  std::size_t AddPhase(std::string name) {
    if (plan_.phases.size() < ProgramPlan::kMaxPhases) {
      plan_.phases.push_back(std::move(name));
    } else {
      plan_.phases.back() = "others";
    }
    return plan_.phases.size() - 1;
  }

  std::size_t NewSlot(const TensorType& type, const std::string& name) {
    plan_.slots.push_back({type, name, std::nullopt});
    return plan_.slots.size() - 1;
  }

  /// Counts readers of what the outputs need, up to the inputs.
  void CountReaders(std::span<const ProgramOutput> outputs) {
    for (const ProgramOutput& output : outputs) ++readers_[output.node];
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      if (readers_[i] == 0 || slots_.contains(i)) continue;
      for (const std::size_t input : nodes_[i].inputs) ++readers_[input];
    }
  }

  /// The slot with the node's tensor.
  std::size_t InMemory(std::size_t number) {
    if (const auto found = slots_.find(number); found != slots_.end()) return found->second;
    const TensorNode& node = nodes_[number];
    std::size_t slot = 0;
    if (node.bound.kernel != nullptr && node.bound.steps.empty()) {
      slot = KernelOutput(number);
      Name(slot, number);
    } else {
      slot = Write(ChainOf(number), node.name);
      Name(slot, number);
    }
    slots_.emplace(number, slot);
    return slot;
  }

  /// The slot is written to the output's room if the node is one, and if something writes it.
  void Name(std::size_t slot, std::size_t number) {
    const auto room = room_of_.find(number);
    if (room == room_of_.end() || plan_.steps.empty()) return;
    const ProgramPlan::Step& last = plan_.steps.back();
    if (last.to == slot && last.computes()) {
      plan_.slots[slot].output = room->second;
    }
  }

  std::size_t KernelOutput(std::size_t number) {
    const TensorNode& node = nodes_[number];
    if (const auto found = kernels_.find(number); found != kernels_.end()) return found->second;
    ProgramPlan::Step step;
    for (const std::size_t input : node.inputs) step.from.push_back(InMemory(input));
    step.to = NewSlot(node.bound.kernel_output, node.name);
    step.kernel = node.bound.kernel;
    step.phase = AddPhase(PhaseName({node.operation->name}));
    const std::size_t slot = step.to;
    plan_.steps.push_back(std::move(step));
    kernels_.emplace(number, slot);
    return slot;
  }

  /// The chain that gives the node. It begins at the last tensor that lies in memory anyway.
  Chain ChainOf(std::size_t number) {
    const TensorNode& node = nodes_[number];
    Chain chain = node.bound.kernel != nullptr ? ChainFrom(KernelOutput(number))
                                               : ChainOfInput(node.inputs.front());
    for (const LoopStep& step : node.bound.steps) {
      if (!chain.plan.Append(step)) {
        chain = ChainFrom(Write(chain, node.name));
        chain.plan.Append(step);
      }
      chain.AppendName(node);
    }
    return chain;
  }

  Chain ChainFrom(std::size_t slot) { return {slot, LoopPlan(plan_.slots[slot].type)}; }

  Chain ChainOfInput(std::size_t number) {
    if (const auto found = slots_.find(number); found != slots_.end()) {
      return ChainFrom(found->second);
    }
    const TensorNode& node = nodes_[number];
    if (node.bound.kernel != nullptr && node.bound.steps.empty()) {
      return ChainFrom(InMemory(number));
    }
    Chain chain = ChainOf(number);
    // Moving values again costs nothing in a loop that moves them anyway, and converting does.
    if (readers_[number] > 1 && chain.plan.converts()) return ChainFrom(InMemory(number));
    return chain;
  }

  /// Runs the chain's loop. Returns the slot that it writes.
  std::size_t Write(const Chain& chain, const std::string& name) {
    ProgramPlan::Step step;
    step.from = {chain.from};
    step.to = NewSlot(chain.plan.output(), name);
    step.split_factor = chain.plan.split_factor();
    if (!chain.plan.only_views()) {
      step.loop = chain.plan;
      step.phase = AddPhase(PhaseName(chain.operations));
    }
    const std::size_t slot = step.to;
    plan_.steps.push_back(std::move(step));
    return slot;
  }

  const std::vector<TensorNode>& nodes_;
  std::vector<std::size_t> readers_;
  std::map<std::size_t, std::size_t> slots_;    // of nodes that lie in memory
  std::map<std::size_t, std::size_t> kernels_;  // of the kernels of nodes that have steps too
  std::map<std::size_t, std::size_t> room_of_;  // outputs that a node can be written to
  ProgramPlan plan_;
};

ProgramPlan ProgramPlan::Of(const TensorGraph& graph, std::span<const std::size_t> inputs,
                            std::span<const ProgramOutput> outputs) {
  return ProgramCompiler(graph, inputs, outputs).Take();
}

}  // namespace millrace
