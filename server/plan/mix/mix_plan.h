// The data that the readers of a mix share: how each branch's tensors become tensors of the mix.
//
// Immutable; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"
#include "server/plan/mix/branch_program.h"
#include "server/plan/mix/joined_tables.h"
#include "server/source/source.h"

namespace millrace {

/// How a tensor of a branch becomes a tensor of the mix.
struct CopiedTensor {
  std::size_t to = 0;    // its number in the mix
  std::size_t from = 0;  // in the branch
  DType from_type = DType::kUint8;
  std::optional<std::size_t> splits = {};  // the number in the branch of its splits
  std::span<const std::uint32_t> rows;     // of the joined table; empty: values stay
  bool of_sorted_edges = false;            // a row for each edge, and edges are put in a new order
};

/// How the examples of a branch get into batches of the mix.
struct BranchCopy {
  std::vector<CopiedTensor> tensors;
  /// The edges' labels, among `tensors`, if numbers of a joined table do not ascend as the branch's
  /// do. Every batch has its edges by label.
  std::optional<std::size_t> sorted_by = {};
  /// The number in the mix of each reason for which the branch drops examples.
  std::array<DropReason, kDropReasons> reasons = {};
};

struct MixPlan {
  /// Errors of MakeMixedSource.
  static Result<MixPlan> Make(const std::vector<SourceBranch>& branches,
                              std::vector<BranchProgram> programs, JoinedTables joined);

  std::vector<BranchProgram> programs;
  JoinedTables tables;
  std::vector<TensorSpec> tensors;
  std::vector<BranchCopy> copies;  // one for each branch
  ExpandSpec expand;
  DropReasonNames reasons;

 private:
  MixPlan(std::vector<BranchProgram> made, JoinedTables joined)
      : programs(std::move(made)), tables(std::move(joined)) {}
};

}  // namespace millrace
