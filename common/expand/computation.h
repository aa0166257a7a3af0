// The part of a delivery (delivery.h) that computes tensors of a batch from those that travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/expand/delivered_order.h"
#include "common/expand/expand.h"
#include "common/expand/graph_padding.h"
#include "common/operands/operands.h"
#include "common/operations/consumer_program.h"
#include "common/operations/program.h"
#include "common/system/mutex.h"

namespace millrace::internal {

class BatchComputation;

/// Immutable, except for memory that it keeps; thread-safe.
class Computation : public std::enable_shared_from_this<Computation> {
 public:
  /// Where an output of the program goes, by number among the computed tensors.
  struct Output {
    std::size_t values = 0;
    std::optional<std::size_t> splits = std::nullopt;
    std::optional<Pad> pad = std::nullopt;
  };

  /// As Delivery::Make.
  static Result<std::shared_ptr<const Computation>> Make(std::vector<TensorSpec> tensors,
                                                         ConsumerProgram program,
                                                         DType index_dtype);
  /// The subset of this computation that devices can do, or the rest of it. Both have computed
  /// tensors in this object's order. A subset delivers nothing that travels.
  std::shared_ptr<const Computation> Subset(bool on_device) const;

  /// The tensors that travel, and whether each is delivered, expanded.
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  const std::vector<bool>& expanded() const { return expanded_; }
  /// The computed tensors as they are delivered, by the bytes of their names.
  const std::vector<TensorSpec>& computed() const { return computed_; }
  /// How graphs are padded, and the masks of the padding; absent and empty if graphs are not
  /// padded.
  const std::optional<GraphPadding>& padding() const { return padding_; }
  std::span<const TensorSpec> masks() const {
    return padding_ ? std::span<const TensorSpec>(padding_->masks())
                    : std::span<const TensorSpec>();
  }
  /// All tensors that are delivered, in the order of the batch.
  const std::vector<DeliveredPlace>& order() const { return order_; }

  /// As Delivery::phases.
  const std::vector<std::string>& phases() const { return program_->phases(); }

  DType index_dtype() const { return index_dtype_; }
  const Program& program() const { return *program_; }
  /// The inputs of the program, and whether the values of each have to be checked to fit.
  const std::vector<Operand>& operands() const { return operands_; }
  const std::vector<bool>& narrowed() const { return narrowed_; }
  const std::vector<Output>& outputs() const { return outputs_; }

  /// DataLoss unless the batch has the tensors that travel.
  Status CheckTensors(const PackedBatch& packed) const;
  /// Memory for one batch at a time. It is returned when it is dropped.
  std::shared_ptr<BatchComputation> Begin() const;

 private:
  friend class BatchComputation;
  friend class ComputationMaker;

  Computation() = default;

  std::vector<TensorSpec> tensors_;
  DType index_dtype_ = DType::kInt32;
  std::shared_ptr<const TensorGraph> graph_;
  std::vector<bool> expanded_;
  std::vector<TensorSpec> computed_;
  std::optional<GraphPadding> padding_;
  std::vector<DeliveredPlace> order_;
  std::vector<Operand> operands_;
  std::vector<bool> narrowed_;
  std::optional<Program> program_;
  std::vector<Output> outputs_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<BatchComputation>> idle_ MILLRACE_GUARDED_BY(mutex_);
};

/// The computation for some rows of one batch. Not thread-safe.
class BatchComputation {
 public:
  explicit BatchComputation(const Computation& computation);

  /// Sets dtypes and shapes of the computed tensors. REQUIRES: the batch has the tensors that
  /// travel, and these rows.
  Status LayOut(const PackedBatch& packed, RowRange rows, std::vector<ComputedPlace>& places);
  /// Computes the tensors of the batch that was laid out. `room` gives the memory of computed
  /// tensor number `tensor`. `observer` may be null.
  Status Run(const PackedBatch& packed,
             const std::function<std::span<std::byte>(std::size_t tensor)>& room,
             ProgramObserver* observer);

  /// The program's memory after LayOut: views of all its tensors. The views of its inputs have
  /// their values in the batch.
  const ProgramMemory& memory() const { return memory_; }

 private:
  /// Copies inputs that start where operations cannot read them.
  void AlignInputs();
  Status CheckInputs() const;
  /// The rows of a computed tensor that has `own` rows of its own.
  std::uint64_t RowsOf(std::size_t tensor, std::uint64_t own) const;

  const Computation& computation_;
  OperandViews views_;
  std::vector<TensorView> inputs_;
  std::vector<std::vector<std::uint64_t>> aligned_;  // inputs with unaligned rows
  ProgramMemory memory_;
};

}  // namespace millrace::internal
