// Rules that a list of tensors has to follow, whoever wrote it: a plan or the header of a batch
// that came over the network.
//
//  - A tensor without `splits` has one row a graph. Any other has as many rows as the last number
//  of
//    the splits tensor it names: node_label names node_splits, edge_source names edge_splits.
//  - A splits tensor has the kind kSplits, an unsigned dtype and graphs + 1 rows, and cuts at least
//    one tensor.
//  - kNodeOffset, kEdgeSource and kEdgeTarget name in `node_splits` the splits that number nodes.
//  - Edges that belong together name one splits tensor, whose expansion is kEdgeSplits: exactly one
//    kEdgeSource, one kEdgeTarget of the same dtype and node_splits, and one kEdgeLabel. There may
//    be several such groups. Where edges are added, no other tensor may name these splits.
//  - Paths and names of dimensions are 1 to 255 printable ASCII characters without blanks.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"

namespace millrace {

inline constexpr std::size_t kMaxTensors = 1024;
inline constexpr std::size_t kMaxDimensions = 8;
inline constexpr std::uint32_t kMaxBaseEdgeLabels = 1u << 16;

/// The numbers of the tensors that hold one kind of edges.
struct EdgeGroup {
  std::size_t splits = 0;
  std::size_t source = 0;
  std::size_t target = 0;
  std::size_t label = 0;
  std::size_t node_splits = 0;
};

/// The number of the tensor with this path.
std::optional<std::size_t> FindTensor(std::span<const TensorSpec> tensors, std::string_view path);

/// Where the values of an integer type begin and end.
std::int64_t DTypeMin(DType dtype);
std::uint64_t DTypeMax(DType dtype);
bool IsSigned(DType dtype);

/// The groups of edges, in the order of their splits. InvalidArgument names the tensor that breaks
/// a rule above, and the rule.
Result<std::vector<EdgeGroup>> CheckTensors(std::span<const TensorSpec> tensors,
                                            const ExpandSpec& expand);

}  // namespace millrace
