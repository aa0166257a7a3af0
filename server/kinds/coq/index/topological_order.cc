#include "server/kinds/coq/index/topological_order.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "server/files/dataset_files.h"

namespace millrace {
namespace {

using Graph = std::vector<std::vector<std::uint32_t>>;

// Repeatedly removes from `alive` every node that has no edge to a node in `alive`.
void StripLeaves(const Graph& edges, const Graph& reversed, std::vector<bool>& alive) {
  std::vector<std::uint32_t> degree(edges.size(), 0);
  std::vector<std::uint32_t> leaves;
  for (std::uint32_t f = 0; f < edges.size(); ++f) {
    if (!alive[f]) continue;
    for (const std::uint32_t to : edges[f]) degree[f] += alive[to] ? 1 : 0;
    if (degree[f] == 0) leaves.push_back(f);
  }
  while (!leaves.empty()) {
    const std::uint32_t leaf = leaves.back();
    leaves.pop_back();
    alive[leaf] = false;
    for (const std::uint32_t from : reversed[leaf]) {
      if (alive[from] && --degree[from] == 0) leaves.push_back(from);
    }
  }
}

}  // namespace

TopologicalOrder OrderFiles(std::span<const OrderedFile> files) {
  const auto count = static_cast<std::uint32_t>(files.size());
  Graph needs(count);
  Graph needed_by(count);
  std::vector<std::uint32_t> missing(count, 0);
  for (std::uint32_t f = 0; f < count; ++f) {
    const auto dependencies = files[f].dependencies;
    for (std::size_t d = 0; d < dependencies.size(); ++d) {
      if (dependencies[d] >= count || (d == 0 && dependencies[d] == f)) continue;
      needs[f].push_back(dependencies[d]);
      needed_by[dependencies[d]].push_back(f);
      ++missing[f];
    }
  }

  // In the queue, a file's rank stands for its size and name.
  std::vector<std::uint32_t> by_rank(count);
  std::iota(by_rank.begin(), by_rank.end(), 0u);
  std::sort(by_rank.begin(), by_rank.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (files[a].size != files[b].size) return files[a].size < files[b].size;
    return NameLess(files[a].name, files[b].name);
  });
  std::vector<std::uint32_t> rank(count);
  for (std::uint32_t r = 0; r < count; ++r) rank[by_rank[r]] = r;

  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t f = 0; f < count; ++f) {
    if (missing[f] == 0) ready.push(rank[f]);
  }
  TopologicalOrder result;
  std::vector<bool> alive(count, true);
  while (!ready.empty()) {
    const std::uint32_t f = by_rank[ready.top()];
    ready.pop();
    result.order.push_back(f);
    alive[f] = false;
    for (const std::uint32_t dependent : needed_by[f]) {
      if (--missing[dependent] == 0) ready.push(rank[dependent]);
    }
  }
  if (result.order.size() < count) {
    StripLeaves(needed_by, needs, alive);
    for (std::uint32_t f = 0; f < count; ++f) {
      if (alive[f]) result.cyclic.push_back(f);
    }
  }
  return result;
}

}  // namespace millrace
