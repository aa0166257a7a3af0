// Writes graph datasets of made-up nodes: degrees follow a power law, and so does how often edges
// lead to a node; half of the edges stay in the node's class, which its features show too. They
// serve for tests, benchmarks and a first try without data.
//
// All values of a node follow from (options, number of the node). So the arrays are written one
// after the other from start to end, and memory does not grow with the graph. Equal options give
// equal bytes on any machine, because only integer arithmetic is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "common/base/result.h"

namespace millrace {

struct GraphGeneratorOptions {
  std::uint64_t seed = 0;
  std::uint64_t nodes = 1'000'000;  // 1 to 2^31 - 1
  /// About the edges of a node on average; 4 to 1000.
  std::uint32_t degree = 16;
  /// Values of node_feature/x of a node, and of edge_feature/w of an edge. 0: no such array.
  std::uint32_t features = 32;
  std::uint32_t edge_features = 0;
  /// Numbers of labels of nodes and of edges; 0: no labels.
  std::uint32_t node_labels = 0;
  std::uint32_t edge_labels = 0;
  /// Classes of nodes: the values of targets/train/y. At least 1.
  std::uint32_t classes = 16;
  /// Length of roots/train; 0: a tenth of the nodes, at least 1. At most `nodes`.
  std::uint64_t roots = 0;
  /// Small graphs in graphs/small, with the class of each in targets/small/y. Edges then stay in
  /// their graph. 0: no small graphs. At most `nodes`.
  std::uint64_t graphs = 0;
  /// Called now and then with how many nodes were done since the last call, of `total`. May be
  /// empty.
  std::function<void(std::uint64_t nodes, std::uint64_t total)> progress;
};

/// Numbers of the written dataset.
struct GraphGeneratorReport {
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  std::uint64_t roots = 0;
  std::uint64_t bytes = 0;  // of all arrays
};

/// Writes the dataset into `dir`, which is created if it does not exist. InvalidArgument if a
/// number is out of range. FailedPrecondition if `dir` is not empty. PermissionDenied,
/// ResourceExhausted (disk full) or another code if writing fails; the files written so far are
/// then removed.
Status GenerateGraph(const std::filesystem::path& dir, const GraphGeneratorOptions& options,
                     GraphGeneratorReport* report);

}  // namespace millrace
