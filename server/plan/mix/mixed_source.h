// A source that mixes others: the branches of a pipeline. Its examples are the examples of the
// branches, one branch after the other. Batches have the tensors that all branches deliver, and one
// more with the branch of each example. The tensor `example_id` has an example's number in its own
// branch.
//
// Each branch builds its examples of a batch at once, in memory of its own. Then the examples are
// copied into the batch in their order; their values get the types of the mix, and row numbers
// become rows of the joined tables.
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

/// The digest of several datasets: XXH3-128 of their digests in hexadecimal, each ended by a
/// newline.
Digest128 JoinDigests(std::span<const Digest128> digests);

struct MixedBranch {
  std::string name;
  std::string dataset;  // id
  std::shared_ptr<const Source> source;
  TensorsPart tensors = {};  // that the branch defines
};

/// `outside`: the tensors that the pipeline defines outside its branches. `joint_tables`: tables
/// that differ are joined, and are an error otherwise. InvalidArgument that names the difference
/// and two branches, if they do not deliver the same tensors, edges or tables. REQUIRES: there is a
/// branch, and there are at most kMaxBranches.
Result<std::shared_ptr<const Source>> MakeMixedSource(std::vector<MixedBranch> branches,
                                                      const TensorsPart& outside,
                                                      bool joint_tables);

}  // namespace millrace
