// The names of a dataset's arrays, and the roles that the names give them.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

enum class ArrayRole : std::uint8_t {
  kIndptr,
  kIndices,
  kEdgeLabel,
  kNodeLabel,
  kNodeFeature,  // node_feature/X
  kEdgeFeature,  // edge_feature/X
  kRoots,        // roots/NAME
  kTargets,      // targets/NAME/Y
  kGraphs,       // graphs/NAME
};

struct ArrayName {
  ArrayRole role = ArrayRole::kIndptr;
  std::string list;   // NAME
  std::string value;  // X or Y
};

/// nullopt if no array may have that name.
std::optional<ArrayName> ParseArrayName(std::string_view name);

/// Whether users may give the name: a letter or '_', then letters, digits and '_', at most 64 in
/// all.
bool IsWord(std::string_view name);

/// All names that arrays may have, for messages.
inline constexpr std::string_view kArrayNames =
    "indptr, indices, edge_label, node_label, node_feature/X, edge_feature/X, roots/NAME, "
    "targets/NAME/Y or graphs/NAME, with X, Y and NAME of letters, digits and '_'";

}  // namespace millrace
