// The inputs of functions: tensors of the source, results of earlier calls, and results of
// operations on both.
//
// A FunctionGraph is immutable and thread-safe; a Run belongs to one thread, and must not outlive
// its graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/batch_writer.h"
#include "common/operands/operands.h"
#include "common/operations/program.h"
#include "common/operations/tensor_graph.h"
#include "common/tensor/tensor_view.h"
#include "server/plan/tensors/function_calls.h"

namespace millrace {

class FunctionGraph {
 public:
  /// `others`: the definitions that are not calls; definitions that no call reads are left out.
  /// `source`: the tensors of the source; `tables`: the tables of `lookup`, which have to outlive
  /// the graph. Errors of TensorPlan::Compile. REQUIRES: each call comes after the calls that it
  /// needs, unless the source has their tensors.
  static Result<FunctionGraph> Bind(const TensorsPart& others, std::span<const FunctionCall> calls,
                                    const std::vector<TensorSpec>& source,
                                    const LookupTables& tables);

  std::size_t calls() const { return calls_.size(); }
  /// The types of a call's inputs, in their order. Its rows are examples.
  std::vector<TensorType> InputTypes(std::size_t call) const;
  /// Whether a later call reads the results of this one.
  bool IsRead(std::size_t call) const { return calls_[call].is_read; }

  /// A tensor that a call has made.
  struct Made {
    std::vector<std::uint64_t> words;  // the values; as words, so that they are aligned
    std::size_t bytes = 0;
    std::vector<std::int64_t> splits;  // if it is ragged
  };

  /// The inputs of calls for one batch after another.
  class Run {
   public:
    explicit Run(const FunctionGraph& graph);

    /// Begins with the examples of a source. REQUIRES: the writer is complete, and stays as it is
    /// until the last call has its inputs.
    void Begin(const BatchWriter& examples);
    /// The inputs of a call. Valid until the next call of this or of Begin. An error begins with
    /// the name of the tensor that could not be computed. REQUIRES: SetMade was called for the
    /// calls that it needs.
    Result<std::span<const TensorView>> Inputs(std::size_t call);
    /// Room for the results of a call; call SetMade when they are complete.
    std::vector<Made>& made(std::size_t call) { return made_[call]; }
    void SetMade(std::size_t call);

   private:
    const FunctionGraph& graph_;
    OperandViews operands_;
    std::vector<std::vector<Made>> made_;      // by call and output
    std::vector<TensorView> views_;            // by node
    std::vector<std::vector<Made>> computed_;  // by call and output of its program
    std::vector<ProgramMemory> memories_;      // by call
    std::vector<TensorView> inputs_;
    std::uint64_t rows_ = 0;
  };

 private:
  struct Call {
    std::vector<std::size_t> inputs;                // nodes
    std::optional<Program> program;                 // computes the inputs that are not tensors yet
    std::vector<std::size_t> program_reads;         // nodes
    std::vector<std::size_t> program_makes;         // nodes
    std::vector<std::optional<std::size_t>> nodes;  // of its outputs; nullopt if no call reads it
    bool is_read = false;
  };

  Status AddProgram(Call& call) const;

  std::vector<TensorSpec> source_;
  std::vector<Operand> operands_;           // that are nodes
  std::vector<std::size_t> operand_nodes_;  // of each
  TensorGraph graph_;
  std::vector<Call> calls_;
};

}  // namespace millrace
