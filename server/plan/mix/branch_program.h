// The program of a branch of a mix: it makes all tensors of the branch from its source, at the
// worker.
//
// A BranchProgram is immutable and thread-safe; a BranchBuilder belongs to one thread, and must not
// outlive its program.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/batch_writer.h"
#include "server/plan/tensors/tensor_plan.h"
#include "server/source/source.h"
#include "server/source/tensors_part.h"

namespace millrace {

/// The names of tensors that a mix reads from its branches, because its output or an operation
/// needs them; nullopt: all tensors that nothing else in a branch reads.
std::optional<std::set<std::string>> ReadOfBranches(const TensorsPart& mix);

class BranchProgram {
 public:
  /// `part`: the tensors that the branch defines. `read`: as ReadOfBranches. InvalidArgument with
  /// the place of the fault, also for a definition that has to run at the consumer.
  static Result<BranchProgram> Make(std::shared_ptr<const Source> source, TensorsPart part,
                                    const std::optional<std::set<std::string>>& read);

  const Source& source() const { return *source_; }
  /// The tensors that the branch delivers.
  const std::vector<TensorSpec>& tensors() const {
    return plan_ == nullptr ? source_->tensors() : plan_->tensors();
  }
  /// The tensor of tensors() whose elements count as tokens; empty: there is none.
  std::string token_tensor() const { return TokenTensorOf(source_->facts(), plan_.get()); }
  /// As Source::max_example_bytes.
  std::uint64_t max_example_bytes() const {
    const std::uint64_t own = source_->facts().max_example_bytes;
    return plan_ == nullptr ? own : plan_->MaxExampleBytes(own);
  }

 private:
  friend class BranchBuilder;

  std::shared_ptr<const Source> source_;
  std::shared_ptr<const TensorPlan> plan_;  // null: the source's tensors
};

class BranchBuilder {
 public:
  /// Fails as BatchWriter::Create.
  static Result<BranchBuilder> Make(const BranchProgram& program, BufferPool& pool);

  /// Builds examples of the branch, in this order, as they are in an epoch, or each in a pass of
  /// its own, if there are any passes. Errors of ExampleReader and of TensorPlan::Compute.
  Status Build(std::span<const ExampleId> ids, std::uint64_t epoch,
               std::span<const std::uint64_t> passes = {});

  // The last built examples. Valid until the next call of Build.
  const BatchInfo& info() const { return writer_.info(); }
  /// The values of a tensor of program.tensors().
  std::span<const std::byte> values(std::size_t tensor) const;

 private:
  BranchBuilder(const BranchProgram& program, BatchWriter writer);

  const BranchProgram* program_;
  BatchWriter writer_;
  std::unique_ptr<ExampleReader> reader_;
  std::unique_ptr<TensorPlan::Scratch> scratch_;  // null if the program computes nothing
};

}  // namespace millrace
