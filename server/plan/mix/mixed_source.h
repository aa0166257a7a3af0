// A source that mixes others: the branches of a pipeline. Its examples are those of the branches,
// one branch after the other. Batches have the tensors that all branches come to, and one more that
// says which branch each example is of. The tensor `example_id` has an example's number in its own
// branch.
//
// Each branch builds its examples of a batch at once, in memory of its own. Then the examples are
// copied into the batch in their order; their values get the types of the mix, and numbers of rows
// those of the joined tables.
//
// Free functions, thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/source/source.h"
#include "server/source/tensors_part.h"

namespace millrace {

/// The digest that stands for those of several datasets: XXH3-128 of their hexadecimal forms, each
/// ended by a newline.
Digest128 JoinDigests(std::span<const Digest128> digests);

struct MixedBranch {
  std::string name;
  std::string dataset;  // id
  std::shared_ptr<const Source> source;
  TensorsPart tensors = {};  // that the branch defines
};

/// `outside`: what the pipeline defines outside its branches. `joint_tables`: tables that differ
/// are joined, and are an error otherwise. InvalidArgument that says what differs, and in which two
/// branches, if they do not come to the same tensors, edges or tables. REQUIRES: there is a branch,
/// and there are at most kMaxBranches.
Result<std::shared_ptr<const Source>> MakeMixedSource(std::vector<MixedBranch> branches,
                                                      const TensorsPart& outside,
                                                      bool joint_tables);

}  // namespace millrace
