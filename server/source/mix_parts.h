// The parts of a plan that mixes several sources: the keys `branches`, `mix` and `tables`.
//
// Value types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/source/plan_parts.h"

namespace millrace {

/// The most branches of a mix: the number of a branch takes one byte.
inline constexpr std::size_t kMaxBranches = 256;
/// The largest weight of a branch.
inline constexpr std::uint64_t kMaxBranchWeight = std::uint64_t{1} << 20;

/// How branches are mixed. A pipeline without branches has no weights.
struct MixPart {
  std::vector<std::uint64_t> weights;  // of the branches, in their order
  std::uint64_t seed = 0;              // of the places of branches
  // How many rows an epoch has; one of three:
  std::optional<std::uint64_t> rows;  // this many
  std::optional<std::size_t> all_of;  // so many that this branch occurs whole
  bool shortest = false;              // so many that no row occurs twice
  bool joint_tables = false;          // tables that differ are joined
};

/// One source of a mix.
struct BranchPart {
  std::string name;
  std::string dataset;  // id
  PlanParts parts;      // all that concerns its source, its selection and its order
};

/// Empty if the pipeline has no branches.
struct BranchesPart {
  std::vector<BranchPart> branches;
};

}  // namespace millrace
