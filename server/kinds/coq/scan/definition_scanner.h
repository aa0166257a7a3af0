// Reads the definitions of one file with their proofs, and checks every index in them.
//
// Thread-safe: there is no state except the arguments.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/coq/scan/file_blob.h"
#include "server/kinds/coq/scan/graph_file.h"

namespace millrace {

/// Notes a reference to a node. False if the file has no such dependency.
inline bool NoteTarget(std::vector<FurthestTarget>& targets, std::uint32_t dependency,
                       std::uint32_t node, std::uint64_t offset) {
  if (dependency >= targets.size()) return false;
  if (node >= targets[dependency].needed_nodes) {
    targets[dependency] = {.needed_nodes = std::uint64_t{node} + 1, .offset = offset};
  }
  return true;
}

/// Fills in all arrays of `blob`, and of `summary` the tactics, targets, representative and bounds.
/// `definition_nodes` are the nodes with the definition class, in order. REQUIRES: summary.targets
/// has one entry for each dependency. May throw the exceptions of Cap'n Proto.
Status ScanDefinitions(GraphFile& graph, const std::vector<std::uint32_t>& definition_nodes,
                       FileSummary& summary, FileBlob& blob);

}  // namespace millrace
