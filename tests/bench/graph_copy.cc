#include "tests/bench/graph_copy.h"

#include <algorithm>
#include <span>
#include <utility>

#include "server/kinds/coq/edges.h"
#include "server/kinds/graph/writer/array_writer.h"
#include "server/kinds/graph/writer/graph_sealer.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

/// An edge as the graph dataset has it.
struct Edge {
  std::uint16_t label;
  std::uint64_t target;
};

/// Calls `use(node word, its edges by label)` for each node. Closures leave some edges out; so does
/// the graph.
template <class Use>
Status ForEachNode(const CoqDataset& dataset, const NodeNumbers& numbers, const Use& use) {
  std::vector<Edge> row;
  for (std::uint32_t f = 0; f < dataset.index().files().size(); ++f) {
    MILLRACE_ASSIGN_OR_RETURN(const FileView* const view, dataset.View(FileId(f)));
    for (std::uint32_t n = 0; n < view->node_count; ++n) {
      const auto node = NodeWord::Decode(LoadWord(view->nodes + std::uint64_t{kNodeWords} * n));
      row.clear();
      for (std::uint32_t c = 0; c < node.children_count; ++c) {
        const auto edge = EdgeWord::Decode(LoadWord(view->edges + node.children_index + c));
        if (edge.label == kConstOpaqueDef) continue;
        row.push_back({BaseEdgeLabels()[edge.label],
                       numbers.Number(view->dependency_files[edge.dependency], edge.node)});
      }
      std::stable_sort(row.begin(), row.end(),
                       [](const Edge& a, const Edge& b) { return a.label < b.label; });
      MILLRACE_RETURN_IF_ERROR(use(node, std::span<const Edge>(row)));
    }
  }
  return OkStatus();
}

class GraphCopy {
 public:
  GraphCopy(const CoqDataset& dataset, const NodeNumbers& numbers, fs::path dir)
      : dataset_(dataset), numbers_(numbers), dir_(std::move(dir)) {}

  Status Write(const std::vector<Roots>& all) {
    if (numbers_.nodes() > 0x7FFFFFFF) return InvalidArgument("expected fewer than 2^31 nodes");
    MILLRACE_RETURN_IF_ERROR(ForEachNode(dataset_, numbers_, [&](NodeWord, auto row) {
      description_.edges += row.size();
      return OkStatus();
    }));
    description_.nodes = numbers_.nodes();
    MILLRACE_RETURN_IF_ERROR(WriteRows());
    MILLRACE_RETURN_IF_ERROR(
        WriteArray("node_label", {DType::kUint8, {description_.nodes}}, [&](ArrayWriter& out) {
          return ForEachNode(dataset_, numbers_, [&](NodeWord node, auto) {
            return out.Append(static_cast<std::uint8_t>(node.tag));
          });
        }));
    for (const Roots& roots : all) {
      const auto append = [&](ArrayWriter& out) {
        for (const std::uint64_t node : roots.nodes) {
          MILLRACE_RETURN_IF_ERROR(out.Append(static_cast<std::int32_t>(node)));
        }
        return OkStatus();
      };
      MILLRACE_RETURN_IF_ERROR(WriteArray("roots/" + roots.source,
                                          {DType::kInt32, {roots.nodes.size()}}, append));
    }
    return GraphSealer(dir_, description_).Seal().status();
  }

 private:
  Status WriteRows() {
    std::int64_t end = 0;
    const auto append = [&](ArrayWriter& out) {
      MILLRACE_RETURN_IF_ERROR(out.Append(end));
      return ForEachNode(dataset_, numbers_, [&](NodeWord, auto row) {
        end += static_cast<std::int64_t>(row.size());
        return out.Append(end);
      });
    };
    MILLRACE_RETURN_IF_ERROR(
        WriteArray("indptr", {DType::kInt64, {description_.nodes + 1}}, append));
    MILLRACE_RETURN_IF_ERROR(WriteEdges("indices", DType::kInt32, [](const Edge& edge) {
      return static_cast<std::int32_t>(edge.target);
    }));
    return WriteEdges("edge_label", DType::kUint8,
                      [](const Edge& edge) { return static_cast<std::uint8_t>(edge.label); });
  }
  template <class ValueOf>
  Status WriteEdges(const std::string& name, DType dtype, const ValueOf& value_of) {
    return WriteArray(name, {dtype, {description_.edges}}, [&](ArrayWriter& out) {
      return ForEachNode(dataset_, numbers_, [&](NodeWord, auto row) {
        for (const Edge& edge : row) MILLRACE_RETURN_IF_ERROR(out.Append(value_of(edge)));
        return OkStatus();
      });
    });
  }
  template <class Fill>
  Status WriteArray(const std::string& name, ArrayType type, const Fill& fill) {
    MILLRACE_ASSIGN_OR_RETURN(ArrayWriter out,
                              ArrayWriter::Create(dir_, name + ".npy", std::move(type)));
    MILLRACE_RETURN_IF_ERROR(fill(out));
    MILLRACE_ASSIGN_OR_RETURN(description_.arrays[name], std::move(out).Finish());
    return OkStatus();
  }

  const CoqDataset& dataset_;
  const NodeNumbers& numbers_;
  const fs::path dir_;
  GraphDescription description_;
};

}  // namespace

Result<NodeNumbers> NodeNumbers::Of(const CoqDataset& dataset) {
  NodeNumbers numbers;
  for (std::uint32_t f = 0; f < dataset.index().files().size(); ++f) {
    MILLRACE_ASSIGN_OR_RETURN(const FileView* const view, dataset.View(FileId(f)));
    numbers.bases_.push_back(view->node_base);
    numbers.nodes_ = std::max(numbers.nodes_, view->node_base + view->node_count);
  }
  return numbers;
}

Status CopyAsGraph(const CoqDataset& dataset, const NodeNumbers& numbers, const fs::path& dir,
                   const std::vector<Roots>& roots) {
  return GraphCopy(dataset, numbers, dir).Write(roots);
}

}  // namespace millrace::bench
