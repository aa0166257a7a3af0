// Draws the graph of one example for people. Nodes are in layers by their distance from the roots.
//
// Pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct DrawnNode {
  std::string name;  // name of its label
  bool root = false;
  bool definition = false;
};

struct DrawnEdge {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  std::string name;  // name of its label; empty: no label
};

/// An SVG document. Layers follow the edges from the roots, breadth first. Nodes that no root
/// reaches come last. Long names are cut; tooltips have them whole. REQUIRES: edges join nodes that
/// exist.
std::string GraphSvg(const std::string& title, const std::vector<DrawnNode>& nodes,
                     const std::vector<DrawnEdge>& edges);

}  // namespace millrace
