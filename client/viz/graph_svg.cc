#include "client/viz/graph_svg.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <string_view>

#include <fmt/core.h>

namespace millrace {
namespace {

constexpr double kColumn = 110;  // distance between neighbouring nodes
constexpr double kLayer = 90;
constexpr double kMargin = 60;
constexpr double kRadius = 9;
constexpr std::size_t kWidest = 24;  // most nodes in one row of a layer
constexpr std::size_t kLongestName = 16;

struct Place {
  double x = 0;
  double y = 0;
};

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // XML allows no other control characters.
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

/// The end of a long name, because it says most.
std::string Short(const std::string& name) {
  if (name.size() <= kLongestName) return name;
  std::size_t begin = name.size() - kLongestName;
  // Does not begin within a UTF-8 character.
  while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xC0) == 0x80) ++begin;
  return "…" + name.substr(begin);
}

/// A hue for each name. A name has the same hue in every drawing.
int Hue(std::string_view name) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return static_cast<int>(hash % 360);
}

std::vector<std::vector<std::uint32_t>> Layers(const std::vector<DrawnNode>& nodes,
                                               const std::vector<DrawnEdge>& edges) {
  std::vector<std::vector<std::uint32_t>> out(nodes.size());
  for (const DrawnEdge& edge : edges) out[edge.source].push_back(edge.target);
  std::vector<std::vector<std::uint32_t>> layers;
  std::vector<bool> seen(nodes.size(), false);
  std::vector<std::uint32_t> layer;
  const auto add = [&](std::uint32_t node) {
    if (seen[node]) return;
    seen[node] = true;
    layer.push_back(node);
  };
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].root) add(n);
  }
  while (!layer.empty()) {
    layers.push_back(std::move(layer));
    layer.clear();
    for (const std::uint32_t node : layers.back()) {
      for (const std::uint32_t target : out[node]) add(target);
    }
  }
  for (std::uint32_t n = 0; n < nodes.size(); ++n) add(n);
  if (!layer.empty()) layers.push_back(std::move(layer));
  return layers;
}

}  // namespace

std::string GraphSvg(const std::string& title, const std::vector<DrawnNode>& nodes,
                     const std::vector<DrawnEdge>& edges) {
  const std::vector<std::vector<std::uint32_t>> layers = Layers(nodes, edges);
  std::size_t widest = 1;
  for (const auto& layer : layers) widest = std::max(widest, std::min(layer.size(), kWidest));
  const double width = 2 * kMargin + kColumn * static_cast<double>(widest);
  std::vector<Place> places(nodes.size());
  double y = kMargin;
  for (const auto& layer : layers) {
    for (std::size_t first = 0; first < layer.size(); first += kWidest) {
      const std::size_t count = std::min(kWidest, layer.size() - first);
      const double step = (width - 2 * kMargin) / static_cast<double>(count);
      for (std::size_t i = 0; i < count; ++i) {
        // Every second node is a little lower, so that names do not overlap.
        places[layer[first + i]] = {kMargin + step * (static_cast<double>(i) + 0.5),
                                    y + (i % 2 == 0 ? 0 : kLayer / 4)};
      }
      y += kLayer;
    }
  }

  std::string svg;
  const auto out = std::back_inserter(svg);
  fmt::format_to(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
                 "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"10\">\n"
                 "<title>{2}</title>\n"
                 "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
                 "<text x=\"12\" y=\"20\" font-size=\"13\">{2}</text>\n"
                 "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
                 "markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">"
                 "<path d=\"M0,0 L8,4 L0,8 z\" fill=\"#777\"/></marker></defs>\n",
                 width, y + kMargin, Escape(title));
  for (const DrawnEdge& edge : edges) {
    const Place from = places[edge.source];
    const Place to = places[edge.target];
    const std::string style = fmt::format(
        "fill=\"none\" stroke=\"hsl({},55%,45%)\" stroke-opacity=\"0.7\" "
        "marker-end=\"url(#tip)\"",
        Hue(edge.name));
    const double dx = to.x - from.x;
    const double dy = to.y - from.y;
    const double length = std::sqrt(dx * dx + dy * dy);
    std::string path;
    if (length < 1) {  // an edge from a node to itself
      path = fmt::format("M{:.1f},{:.1f} c-26,-26 26,-26 3,-2", from.x - 3, from.y - kRadius);
    } else {
      path = fmt::format("M{:.1f},{:.1f} Q{:.1f},{:.1f} {:.1f},{:.1f}", from.x, from.y,
                         from.x + dx / 2 - 0.08 * dy, from.y + dy / 2 + 0.08 * dx,
                         to.x - dx / length * kRadius, to.y - dy / length * kRadius);
    }
    fmt::format_to(out, "<path d=\"{}\" {}><title>{} → {}{}{}</title></path>\n", path, style,
                   edge.source, edge.target, edge.name.empty() ? "" : ": ", Escape(edge.name));
  }
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const DrawnNode& node = nodes[n];
    fmt::format_to(out,
                   "<g><title>{0}: {1}</title><circle cx=\"{2:.1f}\" cy=\"{3:.1f}\" r=\"{4}\" "
                   "fill=\"hsl({5},60%,{6}%)\" stroke=\"{7}\" stroke-width=\"{8}\"/>"
                   "<text x=\"{2:.1f}\" y=\"{9:.1f}\" text-anchor=\"middle\">{10}</text></g>\n",
                   n, Escape(node.name), places[n].x, places[n].y, kRadius, Hue(node.name),
                   node.definition ? 60 : 85, node.root ? "#c00" : "#555", node.root ? 3 : 1,
                   places[n].y + kRadius + 10, Escape(Short(node.name)));
  }
  svg += "</svg>\n";
  return svg;
}

}  // namespace millrace
