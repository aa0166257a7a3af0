// A whole folder of a graph dataset: an input gives the bytes of its arrays, as they lie in raw
// files. Whatever they are, the folder is opened, every number is read, and closures and batches
// are built. Before its first byte is used otherwise, it says how the arrays are read: bit 0: wide
// indptr, bit 1: wide indices, bits 2 and 3: width of edge labels, bit 4: node labels, bit 5: a
// list of roots and one of graphs, bit 6: features and targets, and places of edges, bit 7: edges
// are delivered in both directions. The next bytes are numbers of nodes and of edges.
#include "server/kinds/graph/format/graph_dataset.h"

#include <filesystem>
#include <fstream>

#include "common/base/hash.h"
#include "common/batch/arena.h"
#include "common/batch/batch_writer.h"
#include "common/expand/expand.h"
#include "server/kinds/graph/format/graph_json.h"
#include "server/kinds/graph/format/verify.h"
#include "server/kinds/graph/graph_parts.h"
#include "server/kinds/graph/graph_sources.h"
#include "server/kinds/graph/graph_view.h"
#include "server/sampling/closure_builder.h"
#include "server/sampling/closure_in_turns.h"
#include "server/sampling/closure_parts.h"
#include "server/sampling/visited.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"
#include "server/source/tensors_part.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::fuzz {
namespace {

constexpr std::uint64_t kMostRoots = 16;

void RequireDataLoss(const Status& status, const char* what) {
  Require(status.ok() || status.code() == StatusCode::kDataLoss, what + (": " + status.message()));
}

class Folder {
 public:
  explicit Folder(Input input) : input_(input) {
    const std::uint8_t flags = input_.Byte();
    graph_.nodes = input_.Byte() % 16;
    graph_.edges = input_.Byte() % 32;
    Add("indptr", (flags & 1) != 0 ? DType::kInt64 : DType::kUint32, graph_.nodes + 1);
    Add("indices", (flags & 2) != 0 ? DType::kUint64 : DType::kInt32, graph_.edges);
    switch (flags >> 2 & 3) {
      case 1:
        graph_.edge_labels = {"a", "b"};
        Add("edge_label", DType::kUint8, graph_.edges);
        break;
      case 2:
        Add("edge_label", DType::kInt16, graph_.edges);
        break;
      case 3:
        Add("edge_label", DType::kUint64, graph_.edges);
        break;
    }
    if ((flags & 16) != 0) Add("node_label", DType::kInt8, graph_.nodes);
    if ((flags & 128) != 0) symmetrization_ = Symmetrization::kUndirected;
    if ((flags & 32) == 0) return;
    Add("roots/r", DType::kInt32, kMostRoots);
    Add("graphs/g", DType::kUint32, kMostRoots);
    if ((flags & 64) == 0) return;
    symmetrization_ = Symmetrization::kDirected;  // added edges have no features
    arrays_ = {.features = {"known"}, .edge_features = {"w"}, .targets = {"y"}};
    Add("node_feature/known", DType::kBool, graph_.nodes);
    Add("edge_feature/w", DType::kUint16, graph_.edges);
    Add("targets/r/y", DType::kInt8, kMostRoots);
    Add("targets/g/y", DType::kFloat16, kMostRoots - 1);
  }

  /// Writes the folder, reads all of it, and builds closures.
  void Use() {
    WriteFile("graph.json", WriteGraphJson(graph_));
    const auto dataset = GraphDataset::Open(folder_.path());
    if (!dataset.ok()) {
      Require(dataset.status().code() == StatusCode::kDataLoss, "a bad folder is DataLoss");
      return;
    }
    ReadAll(**dataset);
    for (const StopTable& stops : {StopTable(), StopTable{0, 1, 1}}) {
      GraphView view(**dataset, stops);
      for (std::uint64_t root = 0; root < graph_.nodes; ++root) Build(**dataset, view, root);
    }
    if (graph_.arrays.count("roots/r") != 0) {
      BuildAll(*dataset, "roots", "r");
      BuildAll(*dataset, "graphs", "g");
    }
    RequireOk(VerifyGraph(**dataset, {.threads = 1}), "a folder has the digests that it says");
  }

 private:
  void Add(const std::string& name, DType dtype, std::uint64_t length) {
    ArrayType type{dtype, {length}};
    std::string bytes(input_.Take(*type.Bytes()));
    bytes.resize(*type.Bytes());
    std::string path = name;
    path[std::min(path.find('/'), path.size() - 1)] = '_';
    graph_.arrays[name] = {path, std::move(type), 0, bytes.size(), Xxh3(bytes)};
    WriteFile(path, bytes);
  }
  void WriteFile(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.path() / name, std::ios::binary | std::ios::trunc) << bytes;
  }

  void ReadAll(const GraphDataset& dataset) {
    for (std::uint64_t n = 0; n < dataset.nodes(); ++n) {
      const auto row = dataset.Row(n);
      RequireDataLoss(row.status(), "a bad row");
      Require(!row.ok() || row->end <= dataset.edges(), "a row lies among the edges");
      RequireDataLoss(dataset.NodeLabel(n).status(), "a bad node label");
    }
    for (std::uint64_t e = 0; e < dataset.edges(); ++e) {
      const auto neighbour = dataset.Neighbour(e);
      RequireDataLoss(neighbour.status(), "a bad neighbour");
      Require(!neighbour.ok() || *neighbour < dataset.nodes(), "a neighbour is a node");
      RequireDataLoss(dataset.EdgeLabel(e).status(), "a bad edge label");
    }
    const GraphArray* roots = dataset.Find("roots/r");
    const GraphArray* graphs = dataset.Find("graphs/g");
    if (roots == nullptr) return;
    for (std::uint64_t r = 0; r < kMostRoots; ++r) {
      RequireDataLoss(dataset.Root(*roots, r).status(), "a bad root");
    }
    for (std::uint64_t g = 0; g + 1 < kMostRoots; ++g) {
      const auto nodes = dataset.SmallGraph(*graphs, g);
      RequireDataLoss(nodes.status(), "a bad small graph");
      Require(!nodes.ok() || nodes->end <= dataset.nodes(), "a small graph has nodes");
    }
  }

  /// Builds a batch of each example of a source.
  void BuildAll(const std::shared_ptr<const GraphDataset>& dataset, const std::string& name,
                const std::string& list) {
    PlanParts parts;
    parts.Edit<SourcePart>() = {name, list};
    parts.Edit<EdgesPart>() = {symmetrization_, false};
    parts.Edit<GraphArraysPart>() = arrays_;
    if (!arrays_.edge_features.empty()) parts.Edit<TensorsPart>().outputs = {"edge"};
    const auto source = GraphSources().Make(name, dataset, parts);
    RequireOk(source.status(), "a source has its arrays");
    auto writer = BatchWriter::Create((*source)->tensors(), (*source)->expand(), pool_);
    RequireOk(writer.status(), "a source has good tensors");
    const auto reader = (*source)->NewReader();
    for (std::uint64_t id = 0; id < (*source)->examples(); ++id) {
      const ExampleId example(id);
      writer->Begin({}, 0, id, 1);
      const Status read = reader->Append({&example, 1}, *writer);
      RequireDataLoss(read, "an example of bad data");
      if (!read.ok()) continue;
      const auto batch = writer->Seal();
      RequireOk(batch.status(), "a batch of good data");
      RequireOk(Expand(**batch, DType::kInt64, pool_).status(), "a batch is delivered");
    }
    for (std::size_t column = 0; column < (*source)->columns().size(); ++column) {
      std::vector<std::int64_t> values((*source)->examples());
      const ColumnValues wanted{column, values};
      (*source)->ReadColumns(ExampleId(0), {&wanted, 1});
      RequireDataLoss((*source)->CheckIntact(), "a bad number of a column");
    }
  }

  void Build(const GraphDataset& dataset, GraphView& view, std::uint64_t root) {
    const std::uint64_t roots[] = {root};
    Closure closure;
    ClosureBuilder<GraphView, StampedArray> builder(dataset.nodes(), {});
    const ClosureEnd end = builder.Build(view, roots, closure);
    CheckEnd(end, view, closure);
    ClosureInTurns<GraphView> turns(dataset.nodes(), {});
    turns.Begin(view, roots, closure);
    ClosureEnd in_turns = ClosureEnd::kDone;
    while (!turns.Advance(view, closure, &in_turns)) continue;
    CheckEnd(in_turns, view, closure);
    Require(in_turns == end, "both kernels end alike");
  }
  static void CheckEnd(ClosureEnd end, const GraphView& view, const Closure& closure) {
    if (end == ClosureEnd::kFailed) {
      Require(view.status().code() == StatusCode::kDataLoss, "a closure of bad data is DataLoss");
      return;
    }
    Require(end == ClosureEnd::kDone, "a closure is done");
    for (std::size_t e = 0; e < closure.edges(); ++e) {
      Require(closure.edge_ends.data()[e].source < closure.node_labels.size() &&
                  closure.edge_ends.data()[e].target < closure.node_labels.size(),
              "edges join nodes of the closure");
    }
  }

  test::TemporaryFolder folder_;
  BufferPool pool_;
  Input input_;
  GraphArraysPart arrays_;
  Symmetrization symmetrization_ = Symmetrization::kDirected;
  GraphDescription graph_;
};

template <class T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values)
    bytes += NumberBytes(static_cast<std::uint64_t>(value), sizeof value);
  return bytes;
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  millrace::fuzz::Folder(millrace::fuzz::Input(data, size)).Use();
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  const std::vector<int> indptr = {0, 3, 4, 5, 5};
  const std::vector<int> indices = {1, 2, 1, 3, 2};
  const std::vector<std::int64_t> wide_indptr(indptr.begin(), indptr.end());
  const std::vector<std::int64_t> wide_indices(indices.begin(), indices.end());
  const std::string sizes = "\x04\x05";
  const std::string lists =
      Bytes(std::vector<int>{2, 0, 2, 3, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) +
      Bytes(std::vector<int>{0, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
  const std::string labels("\x00\x01\x00\x01\x00", 5);
  const std::string node_labels("\x00\x01\x02\x03", 4);
  return {std::string(1, '\0') + sizes + Bytes(indptr) + Bytes(indices),
          "\x23" + sizes + Bytes(wide_indptr) + Bytes(wide_indices) + lists,
          "\x35" + sizes + Bytes(wide_indptr) + Bytes(indices) + labels + node_labels + lists,
          "\x1a" + sizes + Bytes(indptr) + Bytes(wide_indices) +
              Bytes(std::vector<std::int16_t>{0, 1, 2, 3, 4}) + node_labels,
          "\x75" + sizes + Bytes(wide_indptr) + Bytes(indices) + labels + node_labels + lists +
              std::string("\x00\x01\x01\x00", 4) + Bytes(std::vector<std::int16_t>{1, 2, 3, 4, 5}) +
              std::string(46, '\x01'),
          "\x0c" + sizes + Bytes(indptr) + Bytes(indices) + Bytes(wide_indices),
          "\xa0" + sizes + Bytes(indptr) + Bytes(indices) + lists,
          "\x60" + sizes + Bytes(indptr) + Bytes(indices) + lists + std::string(60, '\x01')};
}
