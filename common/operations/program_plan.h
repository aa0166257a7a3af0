// The steps of a program: which tensors are in memory, and how one is made of others. The compiler
// (program_compiler.cc) decides that. The host runs them (program.h), and devices get tasks made of
// them (common/expand/compute_program.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/operations/loop_plan.h"
#include "common/operations/tensor_graph.h"

namespace millrace {

/// An output of a program.
struct ProgramOutput {
  std::size_t node;  // of the graph
  std::optional<Pad> pad = std::nullopt;
};

/// Value type.
struct ProgramPlan {
  /// One tensor in memory.
  struct Slot {
    TensorType type;
    std::string name;                   // of the node, for messages
    std::optional<std::size_t> output;  // written to the room of this output
  };
  /// Makes slot `to`, in turn, of slots `from`: by a loop, by a kernel, or as a view of the same
  /// bytes.
  struct Step {
    std::vector<std::size_t> from;
    std::size_t to;
    std::optional<LoopPlan> loop;
    std::int64_t split_factor = 1;
    std::shared_ptr<const Kernel> kernel;
    std::size_t phase = 0;  // if it computes something

    bool computes() const { return loop.has_value() || kernel != nullptr; }
  };
  /// Copies or pads a slot into an output's room.
  struct Delivery {
    std::size_t from;
    std::size_t output;
    std::optional<Pad> pad;
    std::size_t phase;
  };
  /// The most phases of a program, and the most bytes of the name of one.
  static constexpr std::size_t kMaxPhases = 64;
  static constexpr std::size_t kMaxPhaseName = 64;

  /// REQUIRES: as Program::Compile.
  static ProgramPlan Of(const TensorGraph& graph, std::span<const std::size_t> inputs,
                        std::span<const ProgramOutput> outputs);

  std::size_t inputs = 0;  // the first slots
  std::size_t outputs = 0;
  std::vector<Slot> slots;
  std::vector<Step> steps;
  std::vector<Delivery> deliveries;
  /// The phases of a run that take time, in its order, by the names of operations: `concat`;
  /// `bits+slice+take` for operations that run as one loop. `pad` and `copy` fill outputs. Names
  /// may repeat. If there are too many, the last one is `others` and covers all the rest.
  std::vector<std::string> phases;
};

}  // namespace millrace
