// Draws one example's graph for a person: nodes in layers by their distance from the roots.
//
// Pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct DrawnNode {
  std::string name;  // of its label
  bool root = false;
  bool definition = false;
};

struct DrawnEdge {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  std::string name;  // of its label
};

/// An SVG document. Layers follow edges from the roots, breadth first; what no root reaches comes
/// last. Long names are cut, and whole in the tooltips. REQUIRES: edges join nodes that exist.
std::string GraphSvg(const std::string& title, const std::vector<DrawnNode>& nodes,
                     const std::vector<DrawnEdge>& edges);

}  // namespace millrace
