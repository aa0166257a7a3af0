// `source: definitions`: one example for each cluster of definitions. The members of the cluster
// are its roots.

#include <algorithm>
#include <utility>

#include "server/dataset/coq/source/coq_source.h"
#include "server/dataset/coq/source/coq_tables.h"
#include "server/dataset/coq/source/file_prefix_labels.h"
#include "server/dataset/coq/source/static_tables.h"

namespace millrace {
namespace {

struct DefinitionColumns {
  GraphColumns graph;
  std::size_t num_definitions;
  std::size_t example_id;
};

class DefinitionSource final : public Source {
 public:
  explicit DefinitionSource(CoqTables tables) : tables_(std::move(tables)) {
    const std::uint64_t max_cluster = index().bounds().max_cluster;
    TensorList list;
    columns_.graph = list.AddGraph(tables_.labels.size(), NodeBound(tables_.closure, max_cluster));
    columns_.num_definitions =
        list.Add("num_definitions", TensorKind::kDense, "batch", 0, max_cluster);
    columns_.example_id = list.Add("example_id", TensorKind::kDense, "batch", 0,
                                   std::max<std::uint64_t>(examples(), 1) - 1);
    tensors_ = list.Take();
  }

  const DatasetIndex& index() const { return tables_.index(); }
  const CoqTables& tables() const { return tables_; }
  const DefinitionColumns& columns() const { return columns_; }
  const ClusterRecord& Cluster(ExampleId id) const { return index().clusters()[id.value()]; }
  std::span<const std::uint32_t> Members(const ClusterRecord& cluster) const {
    return Sub(index().cluster_members(), cluster.members);
  }

  Digest128 digest() const override { return index().digest(); }
  std::string_view name() const override { return "definitions"; }
  std::uint64_t examples() const override { return index().clusters().size(); }

  std::optional<std::uint64_t> SplitIdentity(ExampleId /*id*/) const override { return {}; }
  std::uint32_t File(ExampleId id) const override { return Cluster(id).file; }
  Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const override {
    return FilePrefixLabels(index(), options);
  }
  ExampleDescription Describe(ExampleId id) const override {
    ExampleDescription description;
    description.file = index().file_name(File(id));
    for (const std::uint32_t member : Members(Cluster(id))) {
      description.members.emplace_back(index().string(index().definitions()[member].name));
    }
    if (!description.members.empty()) description.definition = description.members.front();
    return description;
  }

  const std::vector<TensorSpec>& tensors() const override { return tensors_; }
  const ExpandSpec& expand() const override { return tables_.expand; }
  Status CheckIntact() const override { return tables_.CheckIntact(); }
  std::unique_ptr<ExampleBuilder> NewBuilder() const override;

  v1::LabelCounts label_counts() const override { return CountLabels(tables_); }
  void WriteStatic(google::protobuf::io::CodedOutputStream& out) const override {
    WriteStaticTables(tables_, nullptr, out);
  }

 private:
  const CoqTables tables_;
  DefinitionColumns columns_;
  std::vector<TensorSpec> tensors_;
};

template <class Builder>
class DefinitionBuilder final : public ExampleBuilder {
 public:
  explicit DefinitionBuilder(const DefinitionSource& source)
      : source_(source), graph_(source.tables()) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    const DatasetIndex& index = source_.index();
    const auto roots = [&](std::size_t i, std::vector<NodeRef>* nodes) {
      const ClusterRecord& cluster = source_.Cluster(ids[i]);
      if (source_.tables().excluded[cluster.file]) return std::optional(DropReason::kExcluded);
      for (const std::uint32_t member : source_.Members(cluster)) {
        const DefinitionRecord& definition = index.definitions()[member];
        nodes->push_back({definition.file, definition.node});
      }
      return std::optional<DropReason>();
    };
    const auto done = [&](std::size_t i, std::optional<DropReason> dropped) {
      if (dropped) {
        writer.AddDropped(ids[i], *dropped);
        return OkStatus();
      }
      const DefinitionColumns& columns = source_.columns();
      graph_.Append(columns.graph, writer);
      writer.AppendOne(columns.num_definitions, source_.Cluster(ids[i]).members.count);
      writer.AppendOne(columns.example_id, static_cast<std::int64_t>(ids[i].value()));
      writer.EndExample(ids[i]);
      return OkStatus();
    };
    return graph_.Build(ids.size(), roots, done);
  }

 private:
  const DefinitionSource& source_;
  GraphBuilder<Builder> graph_;
};

std::unique_ptr<ExampleBuilder> DefinitionSource::NewBuilder() const {
  index().definition_table();  // made here, so that it is not made while a batch is built
  return WithClosureBuilder(tables_, [this]<class Builder>() -> std::unique_ptr<ExampleBuilder> {
    return std::make_unique<DefinitionBuilder<Builder>>(*this);
  });
}

}  // namespace

Result<std::shared_ptr<const Source>> MakeDefinitionSource(std::shared_ptr<const Dataset> dataset,
                                                           const PlanDraft& draft) {
  MILLRACE_ASSIGN_OR_RETURN(CoqTables tables, CoqTables::Make(std::move(dataset), draft));
  return std::shared_ptr<const Source>(std::make_shared<DefinitionSource>(std::move(tables)));
}

}  // namespace millrace
