// How a plan uses its source's tensors: the tensors that travel, some of them computed at the
// worker, and the program by which the consumer computes the rest.
//
// Immutable; thread-safe. A scratch belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/batch_writer.h"
#include "common/batch/layout/layout.h"
#include "common/operands/operands.h"
#include "common/operations/consumer_program.h"
#include "common/operations/program.h"
#include "common/operations/tensor_graph.h"
#include "server/plan/tensors/transfer_cut.h"
#include "server/source/tensors_part.h"

namespace millrace {

class TensorPlan {
 public:
  /// Memory that a thread reuses between batches.
  class Scratch {
   public:
    Scratch(const std::vector<TensorSpec>& source, const std::vector<Operand>& inputs)
        : views_(source, inputs) {}

   private:
    friend class TensorPlan;

    /// A computed tensor, until the batch is laid out.
    struct Computed {
      std::vector<std::uint64_t> words;
      std::size_t bytes = 0;
      std::vector<std::uint32_t> splits;
    };

    OperandViews views_;
    ProgramMemory memory_;
    std::vector<Computed> computed_;
  };

  /// `tables`: the tables of `lookup`. Their types and values have to outlive the plan.
  /// InvalidArgument that begins with the place of the fault, if the part knows it. REQUIRES: the
  /// part is not empty; `source` keeps the rules of tensor_table.h.
  static Result<std::shared_ptr<const TensorPlan>> Compile(const TensorsPart& part,
                                                           const std::vector<TensorSpec>& source,
                                                           const ExpandSpec& expand,
                                                           const LookupTables& tables = {});
  TensorPlan(const TensorPlan&) = delete;
  TensorPlan& operator=(const TensorPlan&) = delete;

  /// The tensors that travel: tensors of the source in their order, then the computed ones by the
  /// bytes of their names, each with its splits.
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  /// The program of the consumer, without sources; absent: it delivers the tensors that travel.
  const std::optional<ConsumerProgram>& consumer() const { return consumer_; }
  /// An output that is padded to the bound of each batch's class; empty: no such output.
  const std::string& padded_to_bound() const { return padded_to_bound_; }
  /// The table of all operations of the plan.
  const OperationTable& operations() const { return *operations_; }
  /// A tensor that travels and is cut as T of packed rows: T itself, if it travels; empty: none.
  std::string CutAs(const PackTensors& rows) const;
  /// The whole, for people.
  const TensorGraph& graph() const { return graph_; }
  const TransferCut& transfer_cut() const { return cut_; }

  /// The most bytes that travel for an example whose source's tensors have at most `source_bytes`;
  /// 0: unknown.
  std::uint64_t MaxExampleBytes(std::uint64_t source_bytes) const;

  std::unique_ptr<Scratch> NewScratch() const;
  /// The phases of Compute that take time, as Program::phases.
  const std::vector<std::string>& phases() const { return program_.phases(); }
  /// Computes the tensors of the examples in `writer`. `observer` may be null. Errors of
  /// BatchWriter::CheckComplete and of ErrorOfBatch.
  Status Compute(const BatchWriter& writer, Scratch& scratch,
                 ProgramObserver* observer = nullptr) const;
  /// Whether Compute reads a tensor of the source.
  bool Reads(std::size_t source_tensor) const;
  /// The values of one of tensors(), from `writer` and the results of Compute. Valid until either
  /// changes. REQUIRES: Compute was called, and succeeded; the rows are not late.
  std::span<const std::byte> ValuesOf(std::size_t tensor, const BatchWriter& writer,
                                      const Scratch& scratch) const;
  /// Makes a batch from `writer` and the results of Compute. ResourceExhausted if there is no
  /// memory left. Afterwards only Begin of the writer may be called. REQUIRES: Compute was called,
  /// and succeeded.
  Result<std::shared_ptr<const PackedBatch>> Seal(const BatchWriter& writer, const Scratch& scratch,
                                                  BufferPool& pool) const;

 private:
  /// Where a tensor that travels comes from: the source's tensor, or an output of the program, or
  /// the splits of one.
  struct Origin {
    enum class Kind : std::uint8_t { kSource, kValues, kSplits };
    Kind kind = Kind::kSource;
    std::size_t number = 0;
  };

  TensorPlan() = default;
  Status AddComputed(std::size_t node);
  /// Numbers of nodes need the splits of the nodes, and these need a tensor that they cut. If no
  /// such tensor is chosen and the splits are not in `cut`, the narrowest one travels, though it is
  /// not requested.
  void AddNumberedNodes(const std::set<std::string>& cut, std::vector<bool>& chosen);
  Status Travel(const std::vector<bool>& chosen);
  /// `pads`: of the outputs.
  void MakeConsumer(const TensorsPart& part, const std::map<std::string, Params>& pads);

  const OperationTable* operations_ = nullptr;
  std::vector<TensorSpec> source_;
  std::vector<Operand> operands_;
  TensorGraph graph_;
  TransferCut cut_;
  Program program_;              // from operands of the graph to computed tensors that travel
  std::vector<Operand> inputs_;  // of the program
  std::vector<TensorSpec> tensors_;
  std::vector<Origin> origins_;  // one for each of tensors_
  std::vector<EdgeGroup> edges_;
  bool travels_unasked_ = false;  // an unrequested tensor travels
  std::string padded_to_bound_;
  std::optional<ConsumerProgram> consumer_;
};

/// The tensor that travels whose elements count as tokens: that of the source, or another one that
/// is cut alike; empty: none travels. `computed` is null if all tensors of the source travel.
std::string TokenTensorOf(const SourceFacts& source, const TensorPlan* computed);

}  // namespace millrace
