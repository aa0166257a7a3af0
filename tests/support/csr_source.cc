#include "tests/support/csr_source.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "server/sampling/closure_parts.h"
#include "server/sampling/edge_groups.h"
#include "server/sampling/visited.h"

namespace millrace::test {
namespace {

enum Column : std::size_t {
  kNodeLabel,
  kEdgeSource,
  kEdgeTarget,
  kEdgeLabel,
  kNodeSplits,
  kEdgeSplits,
  kExampleId,
};

TensorSpec Spec(const char* path, TensorKind kind, const char* dimension, std::uint64_t max,
                const char* splits = "", Expansion expansion = Expansion::kWiden) {
  TensorSpec spec;
  spec.path = path;
  spec.kind = kind;
  spec.dtype = NarrowestDType(0, max);
  spec.dimension = dimension;
  spec.splits = splits;
  spec.max = max;
  spec.expansion = expansion;
  if (expansion == Expansion::kEdgeSource || expansion == Expansion::kEdgeTarget) {
    spec.node_splits = "node_splits";
  }
  return spec;
}

class CsrSource final : public Source {
 public:
  CsrSource(CsrGraph graph, const PlanParts& parts)
      : graph_(std::move(graph)),
        closure_(parts.Get<ClosurePart>().options),
        table_(parts.Get<ClosurePart>().kernel == ClosureKernel::kTable) {
    SourceFacts facts;
    facts.name = "csr";
    facts.digest = Xxh3(std::as_bytes(std::span(graph_.targets)));
    facts.examples = graph_.roots.size();
    facts.columns = {{"root"}};
    facts.split_column = "root";
    facts.expand = {graph_.base_edge_labels, parts.Get<EdgesPart>().symmetrization,
                    parts.Get<EdgesPart>().add_self_edges};
    std::uint32_t label = 0;
    for (const std::uint32_t l : graph_.node_labels) {
      if (l != CsrGraph::kUnlabelled) label = std::max(label, l);
    }
    const auto ragged = TensorKind::kRaggedValues;
    facts.tensors = {
        Spec("node_label", ragged, "nodes", label, "node_splits"),
        Spec("edge_source", ragged, "edges", kMaxExampleNodes, "edge_splits",
             Expansion::kEdgeSource),
        Spec("edge_target", ragged, "edges", kMaxExampleNodes, "edge_splits",
             Expansion::kEdgeTarget),
        Spec("edge_label", ragged, "edges", graph_.base_edge_labels - 1, "edge_splits",
             Expansion::kEdgeLabel),
        Spec("node_splits", TensorKind::kSplits, "batch+1", 0xFFFFFFFF),
        Spec("edge_splits", TensorKind::kSplits, "batch+1", 0xFFFFFFFF, "", Expansion::kEdgeSplits),
        Spec("example_id", TensorKind::kDense, "batch", 0xFFFFFFFF),
    };
    SetFacts(std::move(facts));
  }

  const CsrGraph& graph() const { return graph_; }
  const ClosureOptions& closure() const { return closure_; }

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    for (const ColumnValues& column : wanted) {
      for (std::size_t i = 0; i < column.values.size(); ++i) {
        column.values[i] = graph_.roots[first.value() + i].front();
      }
    }
  }
  ExampleDescription Describe(ExampleId /*id*/) const override { return {}; }
  std::unique_ptr<ExampleReader> NewReader() const override;

 private:
  const CsrGraph graph_;
  const ClosureOptions closure_;
  const bool table_;
};

template <class Visited>
class CsrReader final : public ExampleReader {
 public:
  explicit CsrReader(const CsrSource& source)
      : source_(source),
        view_(source.graph()),
        builder_(source.graph().nodes(), source.closure()),
        labels_(source.graph().base_edge_labels),
        groups_(labels_, source.graph().base_edge_labels) {
    std::iota(labels_.begin(), labels_.end(), 0);
  }

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    for (const ExampleId id : ids) MILLRACE_RETURN_IF_ERROR(AppendOne(id, writer));
    return OkStatus();
  }

 private:
  Status AppendOne(ExampleId id, BatchWriter& writer) {
    const std::vector<std::uint32_t>& roots = source_.graph().roots[id.value()];
    switch (builder_.Build(view_, roots, closure_)) {
      case ClosureEnd::kDone:
        break;
      case ClosureEnd::kTooLarge:
        writer.AddDropped(id, DropReason::kTooLarge);
        return OkStatus();
      case ClosureEnd::kUnlabelled:
        writer.AddDropped(id, kCsrUnlabelled);
        return OkStatus();
      default:
        return Internal("a CSR graph has no other ends");
    }
    writer.Append(kNodeLabel, closure_.node_labels.span());
    groups_.Append(closure_, {kEdgeSource, kEdgeTarget, kEdgeLabel}, writer);
    writer.AppendOne(kExampleId, static_cast<std::int64_t>(id.value()));
    writer.EndExample(id);
    return OkStatus();
  }

  const CsrSource& source_;
  CsrView view_;
  ClosureBuilder<CsrView, Visited> builder_;
  Closure closure_;
  std::vector<std::uint16_t> labels_;  // labels of classes, which equal the classes' numbers
  EdgeGroups groups_;
};

std::unique_ptr<ExampleReader> CsrSource::NewReader() const {
  if (table_) return std::make_unique<CsrReader<StampedTable>>(*this);
  return std::make_unique<CsrReader<StampedArray>>(*this);
}

}  // namespace

std::shared_ptr<const Source> MakeCsrSource(CsrGraph graph, const PlanParts& parts) {
  return std::make_shared<CsrSource>(std::move(graph), parts);
}

}  // namespace millrace::test
