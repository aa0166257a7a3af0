#include <catch2/catch.hpp>

#include <vector>

#include "server/files/mapped_file.h"
#include "server/kinds/coq/scan/graph_file.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

TEST_CASE("a graph of several segments is read by its words", "[graph_file]") {
  const test::TempDir dir;
  test::FixtureFile fixture = test::SampleFile("a.bin");
  fixture.segment_words = 4;
  test::WriteFixture(dir.path(), fixture);
  const std::vector<std::byte> bytes = test::ReadBytes(dir / "a.bin");
  CHECK(static_cast<int>(bytes[0]) > 3);  // the number of segments, less one
  auto mapped = MappedFile::Open(dir / "a.bin", AccessPattern::kRandom);
  REQUIRE(mapped.ok());
  const Result<GraphFile> graph = GraphFile::Open(std::move(mapped).value());
  INFO(graph.status().ToString());
  REQUIRE(graph.ok());
  CHECK(graph->node_count() == fixture.nodes.size());
  for (std::uint32_t n = 0; n < graph->node_count(); ++n) {
    const NodeWord node = NodeWord::Decode(LoadWord(graph->nodes() + n * kNodeWords));
    CHECK(node.tag == fixture.nodes[n].tag);
    REQUIRE(node.children_count == fixture.nodes[n].children.size());
    for (std::uint32_t c = 0; c < node.children_count; ++c) {
      const EdgeWord edge = EdgeWord::Decode(LoadWord(graph->edges() + node.children_index + c));
      CHECK(edge.label == fixture.nodes[n].children[c].label);
      CHECK(edge.node == fixture.nodes[n].children[c].target.node);
    }
  }
}

}  // namespace
}  // namespace millrace
