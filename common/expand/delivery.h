// Delivery: which tensors a consumer delivers, and which it computes.
//
// By default the tensors that travel are delivered, expanded. A plan whose pipeline defines tensors
// may send others than it delivers, and a program that computes the delivered ones from them. The
// program runs on packed values, row by row, straight into the memory of the delivered batch.
// Outputs that travel unchanged are expanded, with the tensors that they need: splits, and the
// other tensors of a group of edges.
//
// A delivered batch has, in this order:
//  - the source's tensors, in the source's order. A padded one is dense, and keeps its place;
//  - computed tensors, by the bytes of their names, whether a worker or the consumer computed them.
//    A ragged one, NAME, is followed by NAME_splits. The masks of padded graphs (graph_padding.h)
//    are among them.
// So the order does not depend on what travels. It differs from the order of the tensors'
// addresses.
//
// Value type, cheap to copy; thread-safe. Copies share memory for work in between, which is used
// again from batch to batch.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "common/operations/graph_pad.h"

namespace millrace {

class ProgramObserver;
struct ConsumerProgram;

namespace internal {
class Computation;
}

/// One tensor that every delivered batch of a plan has.
struct DeliveryTensor {
  /// As it travels; if it is computed, as it is delivered. An extent of 0 differs between batches.
  TensorSpec packed;
  DType dtype = DType::kInt32;  // as delivered
  bool computed = false;        // after the wire; a mask is computed too
  /// The rows that every batch has, because graphs are padded. Absent: batches differ in it.
  std::optional<std::uint64_t> rows = std::nullopt;
  /// Name of the table whose rows the values number. A session sets it; empty: no table.
  std::string table = {};
};

class Delivery {
 public:
  /// Delivers the tensors that travel. Implicit, because the index type suffices.
  Delivery(DType index_dtype = DType::kInt32) : index_dtype_(index_dtype) {}  // NOLINT

  /// Delivers the outputs of `program` for batches with these tensors. The program needs neither
  /// sources nor an index type. InvalidArgument if it cannot be bound, or if two tensors would have
  /// the same name; the message begins with the name of a tensor. REQUIRES: the list keeps the
  /// rules of tensor_table.h.
  static Result<Delivery> Make(std::vector<TensorSpec> tensors, ConsumerProgram program,
                               DType index_dtype);

  DType index_dtype() const { return index_dtype_; }
  /// How graphs are padded; absent: they are not.
  std::optional<GraphPad> graph_pad() const;
  /// The delivered tensors of batches with these tensors, in order. REQUIRES: if Make made the
  /// delivery, it was for these tensors.
  std::vector<DeliveryTensor> Tensors(std::span<const TensorSpec> tensors) const;
  /// The phases that take time when tensors are computed (Program::phases); empty if no tensor is.
  std::span<const std::string> phases() const;
  /// This delivery, with `observer` notified of the beginning of the phases of a computation:
  /// phases() if the host computes all tensors, or otherwise the phases of the rest that a device
  /// leaves to it (device_computation.h). The observer has to outlive batches that are expanded
  /// with the result.
  Delivery WatchedBy(ProgramObserver* observer) const;

  /// Null if the tensors that travel are delivered.
  const std::shared_ptr<const internal::Computation>& computation() const { return computation_; }
  ProgramObserver* observer() const { return observer_; }

 private:
  DType index_dtype_;
  std::shared_ptr<const internal::Computation> computation_;
  ProgramObserver* observer_ = nullptr;
};

}  // namespace millrace
