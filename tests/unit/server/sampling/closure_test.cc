#include "server/sampling/closure_builder.h"

#include "tests/unit/server/sampling/random_graph.h"

#include <rapidcheck/catch.h>

#include "server/sampling/closure_in_turns.h"
#include "server/sampling/edge_groups.h"
#include "server/sampling/visited.h"

namespace millrace::test {
namespace {

/// The closure of one example.
template <class Visited>
ClosureEnd BuildOne(ClosureBuilder<CsrView, Visited>& builder, CsrView& view,
                    const std::vector<std::uint32_t>& roots, Closure& closure) {
  return builder.Build(view, roots, closure);
}
ClosureEnd BuildOne(ClosureInTurns<CsrView>& builder, CsrView& view,
                    const std::vector<std::uint32_t>& roots, Closure& closure) {
  ClosureEnd end = ClosureEnd::kFailed;
  builder.Begin(view, roots, closure);
  while (!builder.Advance(view, closure, &end)) {
  }
  return end;
}

/// Builds several closures with one builder and compares each with the plain one.
template <class Builder>
void CheckAgainstPlain(const RandomGraph& graph, const PlainOptions& options,
                       const std::vector<std::vector<std::uint32_t>>& examples) {
  CsrView view(graph.csr);
  Builder builder(graph.csr.nodes(), FastOptions(options));
  Closure closure;
  for (const std::vector<std::uint32_t>& roots : examples) {
    const auto plain = PlainClosure(graph.plain, Wide(roots), options);
    const ClosureEnd end = BuildOne(builder, view, roots, closure);
    RC_ASSERT((end == ClosureEnd::kDone) == plain.has_value());
    if (!plain) continue;
    RC_ASSERT(std::equal(plain->node_labels.begin(), plain->node_labels.end(),
                         closure.node_labels.span().begin(), closure.node_labels.span().end()));
    RC_ASSERT(plain->recorded.size() == closure.edges());
    for (std::size_t e = 0; e < plain->recorded.size(); ++e) {
      const EdgeEnds ends = closure.edge_ends.span()[e];
      RC_ASSERT(ends.source == plain->recorded[e].source);
      RC_ASSERT(ends.target == plain->recorded[e].target);
      RC_ASSERT((closure.edge_words.span()[e] & 0xFFFF) == plain->recorded[e].label);
    }
    // Find gives the numbers of this closure, and nothing that an earlier one left behind.
    std::uint32_t found = 0;
    for (std::uint32_t n = 0; n < graph.csr.nodes(); ++n) {
      std::uint32_t number = 0;
      found += builder.Find(n, &number) ? 1 : 0;
    }
    RC_ASSERT(found == closure.node_labels.size());
    for (std::uint32_t r = 0; r < roots.size(); ++r) {
      std::uint32_t number = 99;
      RC_ASSERT(builder.Find(roots[r], &number));
      RC_ASSERT(number == r);
    }
  }
}

TEST_CASE("the fast closure is the plain one, with every option and kernel", "[closure]") {
  rc::prop("on random graphs", [] {
    const RandomGraph graph = MakeRandomGraph(3, *rc::gen::arbitrary<bool>());
    const PlainOptions options = MakeRandomOptions();
    std::vector<std::vector<std::uint32_t>> examples;
    for (int i = 0; i < 4; ++i) examples.push_back(MakeRandomRoots(graph));
    CheckAgainstPlain<ClosureBuilder<CsrView, StampedArray>>(graph, options, examples);
    CheckAgainstPlain<ClosureBuilder<CsrView, StampedTable>>(graph, options, examples);
    if (options.bfs_option) CheckAgainstPlain<ClosureInTurns<CsrView>>(graph, options, examples);
  });
}

/// The grouped edges of a closure, as a writer with columns of these widths gets them.
template <class Index, class Label>
void CheckGroups(const Closure& closure, const std::vector<PlainTriple>& expected,
                 const std::vector<std::uint16_t>& labels = {0, 1, 2, 3}) {
  std::vector<TensorSpec> tensors(4);
  const auto make = [&](std::size_t i, const char* path, std::size_t bytes) {
    tensors[i].path = path;
    tensors[i].kind = TensorKind::kRaggedValues;
    tensors[i].dtype = NarrowestDType(0, bytes == 1 ? 0xFF : bytes == 2 ? 0xFFFF : 0xFFFFFFFF);
    tensors[i].dimension = "edges";
    tensors[i].splits = "splits";
    tensors[i].max = bytes == 1 ? 0xFF : 0xFFFF;
  };
  make(0, "source", sizeof(Index));
  make(1, "target", sizeof(Index));
  make(2, "label", sizeof(Label));
  tensors[3].path = "splits";
  tensors[3].kind = TensorKind::kSplits;
  tensors[3].dtype = DType::kUint32;
  tensors[3].dimension = "batch+1";
  tensors[3].max = 0xFFFFFFFF;
  BufferPool pool;
  auto writer = BatchWriter::Create(tensors, {}, pool);
  INFO(writer.status().message());
  RC_ASSERT(writer.ok());
  EdgeGroups groups(labels, labels.back() + 1u);
  // Twice, because an object is used for one example after another.
  for (int i = 0; i < 2; ++i) {
    writer->Begin({}, 0, 0, 1);
    groups.Append(closure, {0, 1, 2}, *writer);
    writer->EndExample(ExampleId(0));
  }
  const auto batch = writer->Seal();
  RC_ASSERT(batch.ok());
  RC_ASSERT((*batch)->tensors()[0].rows == expected.size());
  for (std::size_t e = 0; e < expected.size(); ++e) {
    RC_ASSERT((*batch)->ValueAt(0, e) == expected[e].source);
    RC_ASSERT((*batch)->ValueAt(1, e) == expected[e].target);
    RC_ASSERT((*batch)->ValueAt(2, e) == labels[expected[e].label]);
  }
}

TEST_CASE("edges are grouped by label in the order of recording, in columns of every width",
          "[closure]") {
  rc::prop("on random graphs", [] {
    const RandomGraph graph = MakeRandomGraph(4, false);
    const std::vector<std::uint32_t> roots = MakeRandomRoots(graph);
    const PlainOptions options = MakeRandomOptions();
    CsrView view(graph.csr);
    ClosureBuilder<CsrView, StampedArray> builder(graph.csr.nodes(), FastOptions(options));
    Closure closure;
    RC_ASSERT(builder.Build(view, roots, closure) == ClosureEnd::kDone);
    const auto plain = PlainClosure(graph.plain, Wide(roots), options);
    const auto edges = PlainDeliveredEdges(*plain, 4, "none", false);
    CheckGroups<std::uint8_t, std::uint8_t>(closure, edges);
    CheckGroups<std::uint16_t, std::uint8_t>(closure, edges);
    CheckGroups<std::uint16_t, std::uint16_t>(closure, edges);
    CheckGroups<std::uint32_t, std::uint8_t>(closure, edges);
    // So many labels that only those present are looked at.
    CheckGroups<std::uint16_t, std::uint16_t>(closure, edges, {1, 255, 256, 65534});
  });
}

/// A chain 0 → 1 → … of `nodes` nodes, with one root at its beginning.
CsrGraph Chain(std::uint32_t nodes) {
  CsrGraph graph;
  for (std::uint32_t n = 0; n < nodes; ++n) {
    if (n + 1 < nodes) {
      graph.targets.push_back(n + 1);
      graph.edge_labels.push_back(0);
    }
    graph.offsets.push_back(static_cast<std::uint32_t>(graph.targets.size()));
    graph.node_labels.push_back(n % 26);
  }
  graph.is_definition.assign(nodes, false);
  graph.roots = {{0}};
  return graph;
}

TEMPLATE_TEST_CASE("both visited sets hold large closures, then small ones", "[closure]",
                   StampedArray, StampedTable) {
  const CsrGraph graph = Chain(100'000);
  CsrView view(graph);
  ClosureBuilder<CsrView, TestType> builder(graph.nodes(), {.max_subgraph_size = kMaxExampleNodes});
  Closure closure;
  for (int round = 0; round < 3; ++round) {
    const std::uint32_t begin = 0;
    REQUIRE(builder.Build(view, {&begin, 1}, closure) == ClosureEnd::kDone);
    CHECK(closure.node_labels.size() == graph.nodes());
    std::uint32_t number = 0;
    CHECK(builder.Find(77'777, &number));
    CHECK(number == 77'777);
    const std::uint32_t near_end = 99'998;
    REQUIRE(builder.Build(view, {&near_end, 1}, closure) == ClosureEnd::kDone);
    CHECK(closure.node_labels.size() == 2);
    CHECK_FALSE(builder.Find(77'777, &number));
  }
}

TEST_CASE("stamps start anew before they run out, and nothing is taken for visited", "[closure]") {
  MovingBase base;
  std::uint64_t examples = 0;
  while (!base.Advance(MovingBase::kMaxNumbers)) {
    const std::uint64_t last = std::uint64_t{base.base()} + MovingBase::kMaxNumbers;
    REQUIRE(last < (std::uint64_t{1} << 32));
    ++examples;
  }
  CHECK(examples > 2000);
  CHECK(base.base() == 1);
}

TEST_CASE("more nodes than an example may have end it", "[closure]") {
  // There are more roots than max_subgraph_size, so that it does not limit the closure.
  CsrGraph graph = Chain(kMaxExampleNodes + 2);
  const std::vector<std::uint32_t> roots = {0, 1};
  CsrView view(graph);
  ClosureBuilder<CsrView, StampedArray> builder(graph.nodes(), {.max_subgraph_size = 1});
  Closure closure;
  CHECK(builder.Build(view, roots, closure) == ClosureEnd::kTooLarge);
  const std::vector<std::uint32_t> later = {2, 3};
  CHECK(builder.Build(view, later, closure) == ClosureEnd::kDone);
  CHECK(closure.node_labels.size() == kMaxExampleNodes);
}

}  // namespace
}  // namespace millrace::test
