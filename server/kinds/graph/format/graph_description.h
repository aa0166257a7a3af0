// The content of graph.json: what a graph dataset holds, and in which files its arrays are
// (docs/formats/graph-dataset.md).
//
// Values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/files/array_type.h"
#include "server/kinds/graph/format/array_names.h"

namespace millrace {

/// The direction of rows: row x has the edges that begin at x, or the edges that lead to x.
enum class GraphRows : std::uint8_t { kSource, kTarget };
std::string_view GraphRowsName(GraphRows rows);

/// The most edge labels: a label is a number below this.
inline constexpr std::uint64_t kMaxEdgeLabels = 65535;
/// The most node labels: a label is a number below this.
inline constexpr std::uint64_t kMaxNodeLabels = std::uint64_t{1} << 24;
/// The most names of labels of one kind.
inline constexpr std::size_t kMaxLabelNames = std::size_t{1} << 20;

/// One array, as graph.json describes it.
struct ArrayRecord {
  /// Below the dataset's folder, with '/'; or the absolute path of a file elsewhere.
  std::string path;
  ArrayType type;
  std::uint64_t offset = 0;  // of the first value in the file
  std::uint64_t bytes = 0;   // of the whole file
  Digest128 xxh3;            // of the whole file

  friend bool operator==(const ArrayRecord&, const ArrayRecord&) = default;
};

struct GraphDescription {
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  GraphRows rows = GraphRows::kSource;
  std::optional<std::vector<std::string>> edge_labels;  // their names, by number
  std::optional<std::vector<std::string>> node_labels;
  std::map<std::string, ArrayRecord> arrays;  // by name

  /// The array, or nullptr.
  const ArrayRecord* Find(std::string_view name) const;

  friend bool operator==(const GraphDescription&, const GraphDescription&) = default;
};

/// Whether the description agrees with itself: indptr and indices are there; the type, shape and
/// place of every array fit its name, its file and the numbers of nodes and edges; two arrays of
/// one file name it with the same size and digest. DataLoss that names the array.
Status CheckDescription(const GraphDescription& graph);

/// The lines whose digest is the dataset's digest: see docs/formats/graph-dataset.md.
std::string DigestLines(const GraphDescription& graph);
Digest128 DigestOf(const GraphDescription& graph);

/// Number of rows of targets/LIST/…: the length of roots/LIST, otherwise the graphs of graphs/LIST,
/// otherwise all nodes if LIST is "all". nullopt if there is no such list.
std::optional<std::uint64_t> RowsOfList(const GraphDescription& graph, const std::string& list);

}  // namespace millrace
