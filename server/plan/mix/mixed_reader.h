// Reads the examples of a mix into batches.
//
// Belongs to one thread; must not outlive the plan and the branches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/batch/batch_writer.h"
#include "common/operations/convert_kernels.h"
#include "server/plan/mix/branch_program.h"
#include "server/plan/mix/mix_plan.h"
#include "server/source/source.h"

namespace millrace {

class MixedReader final : public ExampleReader {
 public:
  MixedReader(const MixPlan& plan, std::span<const SourceBranch> branches)
      : plan_(plan), branches_(branches), of_(branches.size()) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override;

 private:
  /// The examples of a batch that are of one branch.
  struct BranchBatch {
    std::unique_ptr<BranchBuilder> builder;  // null until it is first needed
    std::vector<ExampleId> ids;
    std::vector<std::uint64_t> passes;  // of the ids; empty if all belong to the epoch
    std::vector<ConvertLoop> convert;   // for each copied tensor; null: bytes stay
    std::vector<std::span<const std::byte>> values;
    std::vector<std::span<const std::byte>> splits;  // of each copied tensor; empty: rows of batch
    std::vector<DType> split_types;
    // The next rows to copy.
    std::size_t next_graph = 0;
    std::size_t next_dropped = 0;
  };
  /// Rows of a tensor.
  struct Rows {
    std::uint64_t first;
    std::uint64_t count;
  };

  Status Build(std::size_t branch, const BatchInfo& batch);
  Status CopyNext(std::size_t branch, ExampleId id, BatchWriter& writer);
  void CopyGraph(std::size_t branch, BatchWriter& writer);
  /// The next example's rows of a copied tensor.
  Rows RowsOf(const BranchBatch& of, const CopiedTensor& tensor, std::size_t number) const;
  /// Finds the order of the next example's edges by their labels in the mix.
  void SortEdges(const BranchBatch& of, const BranchCopy& copy);

  const MixPlan& plan_;
  const std::span<const SourceBranch> branches_;
  BufferPool pool_;
  std::vector<BranchBatch> of_;
  std::vector<std::uint32_t> edge_order_;  // places of an example's edges, by their labels
  std::vector<std::uint32_t> labels_;
};

}  // namespace millrace
