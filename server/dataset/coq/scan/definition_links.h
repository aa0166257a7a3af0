// How the definitions of one file hang together: the forest of `previous`, clusters, the spine.
//
// Thread-safe: no state but the arguments.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/coq/scan/file_blob.h"

namespace millrace {

/// Fills in enter, exit, depth, cluster and on_spine of blob.definitions, and the arrays clusters,
/// cluster_members and spine, from `previous` of the definitions and:
///   cluster_of       the definition that each names as its cluster's representative, or itself
///   representative   the file's, kNone for none
/// All numbers count within blob.definitions and are in range. DataLoss for a cycle of `previous`,
/// a representative that is in another cluster, and a cluster that is not its representative's
/// chain. Takes linear time and does not recurse.
Status LinkDefinitions(const std::vector<std::uint32_t>& cluster_of, std::uint32_t representative,
                       FileBlob& blob);

}  // namespace millrace
