#include "server/kinds/graph/root_list_source.h"

#include <utility>

#include <fmt/format.h>

#include "common/base/ask_for_line.h"

namespace millrace {
namespace {

enum RootColumn : std::size_t { kNode, kDegree, kNodeLabel, kTargets };

SourceFacts RootFacts(const GraphTables& tables, const GraphArray* list, SourceFacts facts) {
  facts.name = "roots";
  facts.examples = list == nullptr ? tables.dataset().nodes() : list->rows();
  facts.columns = {{"node"}, {"degree"}, {"node_label"}};
  return facts;
}

}  // namespace

RootListSource::RootListSource(std::shared_ptr<const GraphTables> tables, const GraphArray* list,
                               SourceFacts facts)
    : GraphSource(tables, RootFacts(*tables, list, std::move(facts))), list_(list) {}

Result<std::uint64_t> RootListSource::Root(std::uint64_t row) const {
  if (list_ == nullptr) return row;
  return dataset().Root(*list_, row);
}

void RootListSource::AskForRoot(std::uint64_t row) const {
  if (list_ != nullptr) AskForLine(list_->data + row * DTypeSize(list_->type.dtype));
}

ExampleDescription RootListSource::Describe(ExampleId id) const {
  ExampleDescription description;
  if (const auto root = Root(id.value()); root.ok()) {
    description.title = fmt::format("node {}", *root);
    description.facts = {{"node", *root}};
  }
  return description;
}

std::int64_t RootListSource::ColumnValue(std::size_t column, std::uint64_t row) const {
  const TargetColumn* const target =
      column < kTargets ? nullptr : &graph_tables().targets()[column - kTargets];
  if (target != nullptr && !target->of_root) {
    return static_cast<std::int64_t>(target->array->NumberAt(row));
  }
  const Result<std::uint64_t> root = Root(row);
  const std::uint64_t node = graph_tables().OrNote(root);
  if (!root.ok() || column == kNode) return static_cast<std::int64_t>(node);
  if (target != nullptr) return static_cast<std::int64_t>(target->array->NumberAt(node));
  if (column == kNodeLabel) return graph_tables().OrNote(dataset().NodeLabel(node));
  return static_cast<std::int64_t>(graph_tables().OrNote(dataset().Row(node)).size());
}

}  // namespace millrace
