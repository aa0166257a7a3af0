// The links between the definitions of one file: the forest of `previous`, clusters, the spine.
//
// Thread-safe: there is no state except the arguments.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/coq/scan/file_blob.h"

namespace millrace {

/// Fills in enter, exit, depth, cluster and on_spine of blob.definitions, and the arrays clusters,
/// cluster_members and spine. The input is `previous` of the definitions and:
///   cluster_of       for each definition: the representative of its cluster that it names, or
///   itself representative   the file's representative, or kNoRef
/// All numbers are positions in blob.definitions and are in range. DataLoss for a cycle of
/// `previous`, a representative that is in another cluster, and a cluster that is not a chain from
/// its representative. Takes linear time and does not recurse.
Status LinkDefinitions(const std::vector<std::uint32_t>& cluster_of, std::uint32_t representative,
                       FileBlob& blob);

}  // namespace millrace
