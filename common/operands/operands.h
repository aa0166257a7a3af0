// Operands: the tensors of a packed batch as operations read them. Worker and consumer make them in
// the same way, so that an operation gives the same values at both places.
//
// Splits tensors are no operands: they are part of the ragged tensors that they cut. Numbers of
// nodes, and the tensors of edges that expansion completes, are operands that no operation reads;
// they can only be delivered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/batch/batch.h"
#include "common/batch/batch_writer.h"
#include "common/batch/layout/layout.h"
#include "common/operations/tensor_graph.h"
#include "common/tensor/tensor_view.h"

namespace millrace {

struct Operand {
  SourceTensor source;
  std::size_t tensor = 0;  // its number in the list
};

/// The operands among the tensors of a plan, in their order. REQUIRES: the list keeps the rules of
/// tensor_table.h. Pure function.
std::vector<Operand> OperandsOf(std::span<const TensorSpec> tensors);

/// Whether each tensor is delivered if the chosen ones are: splits come with their tensors and with
/// tensors that name nodes by them, and the tensors of a group of edges come together. Pure
/// function.
std::vector<bool> WithCompanions(std::span<const TensorSpec> tensors, std::vector<bool> chosen);

/// The error of a program over the operands of a batch, in the same words for all callers.
/// DataLoss, with the batch's place, if the program could not take a value. `why` begins with a
/// tensor's name.
Status ErrorOfBatch(const BatchInfo& info, const Status& why);

/// Views of operands in one batch after another. Keeps its memory; not thread-safe.
class OperandViews {
 public:
  /// REQUIRES: the operands are of `tensors`; both outlive this.
  OperandViews(std::span<const TensorSpec> tensors, std::span<const Operand> operands);

  /// The operands' views. They are valid until the next call, while the batch lives. REQUIRES: the
  /// batch has these tensors.
  std::span<const TensorView> Of(const PackedBatch& batch) {
    return Of(batch, 0, batch.examples());
  }
  /// Views of rows [first, first + rows) of the batch; all rows of a merged one. Splits count from
  /// the first of them. REQUIRES: the batch has these rows too.
  std::span<const TensorView> Of(const PackedBatch& batch, std::size_t first, std::size_t rows);
  /// The same for the contents of a writer, until it appends or begins. REQUIRES: it is complete.
  std::span<const TensorView> Of(const BatchWriter& writer);

 private:
  struct Place {
    std::size_t tensor;
    std::size_t splits;  // number in splits_, or kNone if a row of the tensor is one of the batch
  };
  static constexpr std::size_t kNone = ~std::size_t{0};

  template <class Bytes>
  std::span<const TensorView> View(const BatchInfo& info, std::size_t first, std::size_t rows,
                                   const Bytes& bytes_of);

  std::span<const TensorSpec> tensors_;
  std::span<const Operand> operands_;
  std::vector<Place> places_;
  std::vector<std::size_t> split_tensors_;
  std::vector<std::vector<std::int64_t>> splits_;
  std::vector<std::uint64_t> begins_;  // of splits_, in the whole batch
  std::vector<TensorView> views_;
};

}  // namespace millrace
