#include "server/kinds/coq/scan/definition_links.h"

#include <numeric>

#include <fmt/core.h>

namespace millrace {
namespace {

constexpr std::uint32_t kUnknown = kNoRef;
constexpr std::uint32_t kOnTheWay = kNoRef - 1;

std::uint32_t Size(const std::vector<DefinitionRecord>& v) {
  return static_cast<std::uint32_t>(v.size());
}

// Sets every definition's depth: the length of its chain of predecessors. Walks over each
// definition at most twice.
Status FindDepths(std::vector<DefinitionRecord>& definitions) {
  for (DefinitionRecord& d : definitions) d.depth = kUnknown;
  std::vector<std::uint32_t> way;
  for (std::uint32_t start = 0; start < Size(definitions); ++start) {
    std::uint32_t at = start;
    while (at != kNoRef && definitions[at].depth == kUnknown) {
      definitions[at].depth = kOnTheWay;
      way.push_back(at);
      at = definitions[at].previous;
    }
    if (at != kNoRef && definitions[at].depth == kOnTheWay) {
      return DataLoss(fmt::format("the `previous` chain of definition node {} comes back to itself",
                                  definitions[at].node));
    }
    std::uint32_t depth = at == kNoRef ? 0 : definitions[at].depth + 1;
    for (; !way.empty(); way.pop_back()) definitions[way.back()].depth = depth++;
  }
  return OkStatus();
}

// Numbers the forest in preorder: sizes of subtrees from the deepest definition up, then places
// from the top down.
void NumberForest(std::vector<DefinitionRecord>& definitions) {
  const std::uint32_t n = Size(definitions);
  std::vector<std::uint32_t> first_of_depth(n + 1, 0);
  for (const DefinitionRecord& d : definitions) ++first_of_depth[d.depth + 1];
  std::partial_sum(first_of_depth.begin(), first_of_depth.end(), first_of_depth.begin());
  std::vector<std::uint32_t> by_depth(n);
  for (std::uint32_t i = 0; i < n; ++i) by_depth[first_of_depth[definitions[i].depth]++] = i;

  std::vector<std::uint32_t> subtree(n, 1);
  for (std::uint32_t k = n; k-- > 0;) {
    const std::uint32_t d = by_depth[k];
    if (definitions[d].previous != kNoRef) subtree[definitions[d].previous] += subtree[d];
  }
  std::vector<std::uint32_t> next_child(n);
  std::uint32_t next_root = 0;
  for (const std::uint32_t d : by_depth) {
    DefinitionRecord& definition = definitions[d];
    std::uint32_t& next =
        definition.previous == kNoRef ? next_root : next_child[definition.previous];
    definition.enter = next;
    definition.exit = next + subtree[d];
    next = definition.exit;
    next_child[d] = definition.enter + 1;
  }
}

// Adds the cluster of representative r: the part of the chain from r whose definitions name r.
Status AddCluster(const std::vector<std::uint32_t>& cluster_of, std::uint32_t r, FileBlob& blob) {
  std::vector<DefinitionRecord>& definitions = blob.definitions;
  if (cluster_of[r] != r) {
    return DataLoss(
        fmt::format("definition node {} is named as the representative of a cluster, "
                    "but names {} itself",
                    definitions[r].node, definitions[cluster_of[r]].node));
  }
  const auto cluster = static_cast<std::uint32_t>(blob.clusters.size());
  const auto first = static_cast<std::uint32_t>(blob.cluster_members.size());
  for (std::uint32_t m = r; m != kNoRef && cluster_of[m] == r; m = definitions[m].previous) {
    definitions[m].cluster = cluster;
    blob.cluster_members.push_back(m);
  }
  const auto count = static_cast<std::uint32_t>(blob.cluster_members.size()) - first;
  blob.clusters.push_back({.members = {first, count}, .representative = r, .file = 0});
  return OkStatus();
}

Status FindClusters(const std::vector<std::uint32_t>& cluster_of, FileBlob& blob) {
  std::vector<DefinitionRecord>& definitions = blob.definitions;
  for (DefinitionRecord& d : definitions) d.cluster = kUnknown;
  for (std::uint32_t i = 0; i < Size(definitions); ++i) {
    const std::uint32_t r = cluster_of[i];
    if (definitions[r].cluster == kUnknown) {
      MILLRACE_RETURN_IF_ERROR(AddCluster(cluster_of, r, blob));
    }
    if (definitions[i].cluster != definitions[r].cluster) {
      return DataLoss(
          fmt::format("definition node {} names {} as its cluster's representative, "
                      "but other definitions lie between them on the `previous` chain",
                      definitions[i].node, definitions[r].node));
    }
  }
  return OkStatus();
}

}  // namespace

Status LinkDefinitions(const std::vector<std::uint32_t>& cluster_of, std::uint32_t representative,
                       FileBlob& blob) {
  MILLRACE_RETURN_IF_ERROR(FindDepths(blob.definitions));
  NumberForest(blob.definitions);
  MILLRACE_RETURN_IF_ERROR(FindClusters(cluster_of, blob));
  for (std::uint32_t d = representative; d != kNoRef; d = blob.definitions[d].previous) {
    blob.definitions[d].on_spine = 1;
    blob.spine.push_back(d);
  }
  return OkStatus();
}

}  // namespace millrace
