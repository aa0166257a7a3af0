// pad.graph: how many nodes, edges and graphs every delivered batch has, so that all batches have
// the same shapes. The rows after a batch's own graphs are padding, and masks say which
// rows are no padding. common/expand/graph_padding.h does it.
//
// Value type.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace millrace {

class Params;  // common/parameters/params.h
struct Parameter;

struct GraphPad {
  /// The key of `pad` for graphs, which names no tensor.
  static constexpr std::string_view kKey = "graph";
  /// The masks that come with it, by the bytes of their names.
  static constexpr std::array<std::string_view, 3> kMasks = {"edge_mask", "graph_mask",
                                                             "node_mask"};
  static bool IsMask(std::string_view name);

  std::uint32_t nodes = 0;  // at least one of them is padding
  std::uint32_t edges = 0;
  std::uint32_t graphs = 0;  // the last one is padding

  /// nodes, edges and graphs; all are required.
  static const std::vector<Parameter>& Parameters();
  /// Errors as for WithDefaults.
  static Result<GraphPad> Bind(const Params& params);
  /// The parameters that Bind took.
  Params params() const;

  friend bool operator==(const GraphPad&, const GraphPad&) = default;
};

}  // namespace millrace
