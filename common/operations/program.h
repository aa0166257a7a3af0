// A program computes some tensors of a graph from others: a worker runs one before the transfer
// cut, a consumer one after it. Operations that follow one another run as one loop wherever they
// can (loop.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/operations/loop.h"
#include "common/operations/program_plan.h"

namespace millrace {

/// Memory for tensors between operations. A program can use it again for the next batch; then it
/// takes no more from the system. Not thread-safe.
class ProgramMemory {
 public:
  struct Tensor {
    std::vector<std::uint64_t> values;  // words, so that values are aligned
    std::vector<std::int64_t> splits;
    TensorType type;  // of a padded output
  };
  std::vector<Tensor> tensors;
  std::vector<std::uint64_t> scratch;  // of one kernel after another
  std::vector<TensorView> views;
  std::vector<TensorView> inputs;   // of the step under way
  std::vector<TensorView> outputs;  // of Program::Shapes
};

/// Gets the progress of a run, on the thread that runs, so that times can be taken without a clock
/// here.
class ProgramObserver {
 public:
  virtual ~ProgramObserver() = default;
  /// A phase begins (Program::phases), and the one before it has ended. Phases begin in their
  /// order. Only the last one may begin again, if it covers several.
  virtual void OnPhase(std::size_t phase) = 0;
  /// The last phase has ended. Not called if the run fails.
  virtual void OnEnd() = 0;
};

/// The input of a run beside its tensors.
struct ProgramRun {
  /// Returns room for output `output`, whose type, rows and splits are those of `tensor`. The room
  /// begins at a multiple of 8 bytes. Called once per output.
  std::function<Result<std::span<std::byte>>(std::size_t output, const TensorView& tensor)> room;
  std::optional<std::uint32_t> bound = std::nullopt;  // of the batch's class, for pad
  /// The outputs are read again soon, so they should stay in the caches, even if they are large.
  bool read_soon = true;
  ProgramObserver* observer = nullptr;  // null: no observer
};

/// Immutable; thread-safe.
class Program {
 public:
  /// Computes nothing.
  Program() = default;
  /// REQUIRES: every path from the graph's source to an output goes through an input.
  static Program Compile(const TensorGraph& graph, std::span<const std::size_t> inputs,
                         std::span<const ProgramOutput> outputs);

  /// Runs on tensors that have the types of the program's inputs, in their order. An error names
  /// the tensor that could not be computed.
  Status Run(std::span<const TensorView> inputs, const ProgramRun& run,
             ProgramMemory& memory) const;

  /// The result of Run without values: type, rows and splits of each output, so that a caller can
  /// have room for all before it computes any. Values of inputs are not read and may be absent. The
  /// views are valid until the memory is used again. Errors are as for Run.
  Result<std::span<const TensorView>> Shapes(std::span<const TensorView> inputs,
                                             std::optional<std::uint32_t> bound,
                                             ProgramMemory& memory) const;

  const ProgramPlan& plan() const { return plan_; }
  /// The phases of a run, in its order (ProgramPlan::phases).
  const std::vector<std::string>& phases() const { return plan_.phases; }
  /// Stages of builds and spans of traces are named by this and the name of a phase: `tensors:
  /// take`.
  static constexpr std::string_view kStagePrefix = "tensors: ";

  /// How many loops and kernels run for a batch, for tests and for people.
  std::size_t loops() const;
  std::size_t kernels() const;

 private:
  explicit Program(ProgramPlan plan);

  Status Begin(std::span<const TensorView> inputs, ProgramMemory& memory) const;
  /// Sets the view of the step's output, without values that it computes.
  Status ShapeStep(const ProgramPlan::Step& step, ProgramMemory& memory) const;
  /// REQUIRES: ShapeStep has set the view of step `number`.
  Status RunStep(std::size_t number, const ProgramRun& run, ProgramMemory& memory) const;
  /// The view of an output that is copied or padded, without values. `extent` is set if it is
  /// padded.
  Result<TensorView> ShapeDelivery(const ProgramPlan::Delivery& delivery,
                                   std::optional<std::uint32_t> bound, ProgramMemory& memory,
                                   std::uint32_t& extent) const;
  Status Deliver(const ProgramPlan::Delivery& delivery, const ProgramRun& run,
                 ProgramMemory& memory) const;

  ProgramPlan plan_;
  std::vector<std::optional<Loop>> loops_;  // of its steps
};

}  // namespace millrace
