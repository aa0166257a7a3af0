#include "client/viz/graph_svg.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

std::size_t CountOf(const std::string& text, const std::string& phrase) {
  std::size_t count = 0;
  for (std::size_t at = text.find(phrase); at != std::string::npos;
       at = text.find(phrase, at + 1)) {
    ++count;
  }
  return count;
}

/// The height at which a node is drawn.
double HeightOf(const std::string& svg, std::size_t node) {
  std::size_t at = svg.find("<g><title>" + std::to_string(node) + ": ");
  REQUIRE(at != std::string::npos);
  at = svg.find("cy=\"", at) + 4;
  return std::stod(svg.substr(at));
}

TEST_CASE("every node and edge is drawn once, farther ones lower", "[svg]") {
  const std::string svg =
      GraphSvg("a graph", {{"far"}, {"root", true}, {"near", false, true}, {"alone"}},
               {{1, 2, "one"}, {2, 0, "two"}, {0, 0, "self"}});
  CHECK(CountOf(svg, "<circle") == 4);
  CHECK(CountOf(svg, "marker-end") == 3);
  CHECK(HeightOf(svg, 1) < HeightOf(svg, 2));
  CHECK(HeightOf(svg, 2) < HeightOf(svg, 0));
  CHECK(HeightOf(svg, 0) < HeightOf(svg, 3));
  CHECK(CountOf(svg, "<title>1 → 2: one</title>") == 1);
}

TEST_CASE("names cannot break the document", "[svg]") {
  const std::string svg = GraphSvg("<&\">", {{std::string("a<b\x01") + std::string(60, 'x')}}, {});
  CHECK(CountOf(svg, "&lt;&amp;&quot;&gt;") == 2);
  CHECK(svg.find("a<b") == std::string::npos);
  CHECK(svg.find('\x01') == std::string::npos);
  CHECK(CountOf(svg, std::string(60, 'x')) == 1);  // in the tooltip; the name in the picture is cut
}

TEST_CASE("a cut name does not begin within a character", "[svg]") {
  std::string name;
  for (int i = 0; i < 20; ++i) name += "é";
  name += "x";
  const std::string svg = GraphSvg("", {{name}}, {});
  CHECK(svg.find("…é") != std::string::npos);
}

TEST_CASE("a graph without nodes is a drawing too", "[svg]") {
  CHECK(CountOf(GraphSvg("empty", {}, {}), "</svg>") == 1);
}

}  // namespace
}  // namespace millrace
