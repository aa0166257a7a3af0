// Writes the graph of a Coq dataset as a graph dataset: the same nodes, edges and labels.
//
// Thread-compatible.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/kinds/coq/coq_dataset.h"

namespace millrace::bench {

/// Examples of one source: their ids in the Coq dataset, and the nodes at which they begin,
/// numbered over all files. The graph dataset has the same list of roots, so an id there is a place
/// here.
struct Roots {
  std::string source;
  std::vector<ExampleId> ids;
  std::vector<std::uint64_t> nodes;
};

/// The numbers of nodes over all files.
class NodeNumbers {
 public:
  static Result<NodeNumbers> Of(const CoqDataset& dataset);
  std::uint64_t nodes() const { return nodes_; }
  std::uint64_t Number(std::uint32_t file, std::uint32_t node) const { return bases_[file] + node; }

 private:
  std::vector<std::uint64_t> bases_;
  std::uint64_t nodes_ = 0;
};

/// Writes the dataset into a folder that does not exist. The label of a node is its class.
Status CopyAsGraph(const CoqDataset& dataset, const NodeNumbers& numbers,
                   const std::filesystem::path& dir, const std::vector<Roots>& roots);

}  // namespace millrace::bench
