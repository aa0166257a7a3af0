// `source: definitions`: one example for each cluster of definitions. The members of the cluster
// are its roots.

#include <algorithm>
#include <utility>

#include "server/kinds/coq/coq_names.h"
#include "server/kinds/coq/coq_source.h"
#include "server/kinds/coq/coq_static.h"
#include "server/kinds/coq/coq_tables.h"
#include "server/kinds/coq/file_prefix_labels.h"

namespace millrace {
namespace {

struct DefinitionTensors {
  GraphTensors graph;
  std::size_t num_definitions;
  std::size_t example_id;
};

class DefinitionSource final : public Source, public SourceTables {
 public:
  explicit DefinitionSource(CoqTables tables) : tables_(std::move(tables)) {
    const std::uint64_t max_cluster = index().bounds().max_cluster;
    TensorList list;
    numbers_.graph = list.AddGraph(tables_.labels.size(), kBaseEdgeLabels,
                                   NodeBound(tables_.closure, max_cluster));
    numbers_.num_definitions =
        list.Add("num_definitions", TensorKind::kDense, "batch", 0, max_cluster);
    const std::uint64_t examples = index().clusters().size();
    numbers_.example_id = list.Add("example_id", TensorKind::kDense, "batch", 0,
                                   std::max<std::uint64_t>(examples, 1) - 1);
    SourceFacts facts;
    facts.name = "definitions";
    facts.digest = index().digest();
    facts.examples = examples;
    facts.columns = {{kFileColumn}};
    facts.tensors = list.Take();
    facts.expand = tables_.expand;
    facts.drop_reasons = CoqDropReasons();
    SetFacts(std::move(facts));
  }

  const DatasetIndex& index() const { return tables_.index(); }
  const CoqTables& coq_tables() const { return tables_; }
  const DefinitionTensors& tensor_numbers() const { return numbers_; }
  const ClusterRecord& Cluster(ExampleId id) const { return index().clusters()[id.value()]; }
  std::span<const std::uint32_t> Members(const ClusterRecord& cluster) const {
    return Sub(index().cluster_members(), cluster.members);
  }

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    for (const ColumnValues& column : wanted) {
      for (std::size_t i = 0; i < column.values.size(); ++i) {
        column.values[i] = Cluster(ExampleId(first.value() + i)).file;
      }
    }
  }
  Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const override {
    return FilePrefixLabels(index(), options);
  }
  ExampleDescription Describe(ExampleId id) const override {
    ExampleDescription description;
    description.file = index().file_name(Cluster(id).file);
    std::vector<std::string> members;
    for (const std::uint32_t member : Members(Cluster(id))) {
      members.emplace_back(index().string(index().definitions()[member].name));
    }
    if (!members.empty()) description.title = members.front();
    description.facts = {{"definition", description.title}, {"members", std::move(members)}};
    return description;
  }

  Status CheckIntact() const override { return tables_.CheckIntact(); }
  std::unique_ptr<ExampleReader> NewReader() const override;
  std::unique_ptr<const ExampleNames> NewNames() const override;

  const SourceTables* tables() const override { return this; }
  std::vector<SourceTableSpec> TableSpecs() const override {
    return CoqTableSpecs(tables_, nullptr);
  }
  void WriteTable(std::size_t table, TableWriter& out) const override {
    WriteCoqTable(tables_, nullptr, table, out);
  }

 private:
  const CoqTables tables_;
  DefinitionTensors numbers_;
};

template <class Builder>
class DefinitionReader final : public ExampleReader {
 public:
  explicit DefinitionReader(const DefinitionSource& source)
      : source_(source), graph_(source.coq_tables()) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    const DatasetIndex& index = source_.index();
    const auto roots = [&](std::size_t i, std::vector<NodeRef>* nodes) {
      const ClusterRecord& cluster = source_.Cluster(ids[i]);
      if (source_.coq_tables().excluded[cluster.file]) return std::optional(DropReason::kExcluded);
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
      const DefinitionTensors& numbers = source_.tensor_numbers();
      graph_.Append(numbers.graph, writer);
      writer.AppendOne(numbers.num_definitions, source_.Cluster(ids[i]).members.count);
      writer.AppendOne(numbers.example_id, static_cast<std::int64_t>(ids[i].value()));
      writer.EndExample(ids[i]);
      return OkStatus();
    };
    return graph_.Build(ids.size(), roots, done);
  }

 private:
  const DefinitionSource& source_;
  CoqGraphBuilder<Builder> graph_;
};

class DefinitionNames final : public ExampleNames {
 public:
  explicit DefinitionNames(const DefinitionSource& source)
      : source_(source), names_(source.coq_tables()) {}

  void Name(std::span<const ExampleId> ids, std::span<Digest128> names) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const ClusterRecord& cluster = source_.Cluster(ids[i]);
      // Which definitions belong to the cluster follows from the file.
      const DefinitionRecord& first = source_.index().definitions()[cluster.representative];
      names[i] = names_.Of({.file = cluster.file, .node = first.node});
    }
  }

 private:
  const DefinitionSource& source_;
  const CoqNames names_;
};

std::unique_ptr<const ExampleNames> DefinitionSource::NewNames() const {
  return std::make_unique<DefinitionNames>(*this);
}

std::unique_ptr<ExampleReader> DefinitionSource::NewReader() const {
  index().definition_table();  // made here, so that it is not made while a batch is built
  return WithClosureBuilder<CoqView>(tables_.kernel,
                                     [this]<class Builder>() -> std::unique_ptr<ExampleReader> {
                                       return std::make_unique<DefinitionReader<Builder>>(*this);
                                     });
}

}  // namespace

Result<std::shared_ptr<const Source>> MakeDefinitionSource(
    std::shared_ptr<const CoqDataset> dataset, const PlanParts& parts) {
  MILLRACE_ASSIGN_OR_RETURN(CoqTables tables, CoqTables::Make(std::move(dataset), parts));
  return std::shared_ptr<const Source>(std::make_shared<DefinitionSource>(std::move(tables)));
}

}  // namespace millrace
