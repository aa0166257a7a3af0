#include "server/kinds/coq/coq_static.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

enum CoqTable : std::size_t {
  kNodeClassTable,
  kNodeLabelTable,
  kEdgeLabelTable,
  kTacticTable,
  kFileTable,
  kContextListTable,  // only with contexts, as the next one
  kContextTable,
};

template <class Visit>
void EachLabelled(const CoqTables& tables, const Visit& visit) {
  for (std::uint32_t label = kNodeClasses; label < tables.labels.size(); ++label) {
    visit(tables.index().definitions()[tables.labels.Definition(label)]);
  }
}

template <class Visit>
void EachClassName(const Visit& visit) {
  for (std::uint32_t c = 0; c < kNodeClasses; ++c) visit(std::string_view(NodeClassName(c)));
}

void WriteNodeLabels(const CoqTables& tables, const ContextTable* contexts, TableWriter& out) {
  const DatasetIndex& index = tables.index();
  out.Texts([&](const auto& visit) {
    EachClassName(visit);
    EachLabelled(tables, [&](const DefinitionRecord& d) { visit(index.string(d.name)); });
  });
  out.Signed([&](const auto& visit) {
    for (std::uint32_t c = 0; c < kNodeClasses; ++c) visit(0);
    EachLabelled(tables, [&](const DefinitionRecord& d) { visit(d.identity); });
  });
  if (contexts != nullptr) {
    out.Unsigned([&](const auto& visit) { contexts->EachPrevious(visit); });
  }
}

void WriteTactics(const CoqTables& tables, TableWriter& out) {
  const DatasetIndex& index = tables.index();
  const auto each = [&](const auto& value) {
    return [&, value](const auto& visit) {
      for (const PlanTactic& tactic : tables.tactics.tactics()) visit(value(tactic));
    };
  };
  out.Signed(each([&](const PlanTactic& t) { return index.tactics()[t.record].ident; }));
  out.Texts(
      each([&](const PlanTactic& t) { return index.string(index.tactics()[t.record].base_text); }));
  out.Unsigned(each([](const PlanTactic& t) { return std::uint64_t{t.arguments}; }));
  out.Unsigned(each([](const PlanTactic& t) { return t.count; }));
}

void WriteFiles(const CoqTables& tables, const ContextTable* contexts, TableWriter& out) {
  const DatasetIndex& index = tables.index();
  std::vector<std::uint64_t> labels(index.files().size(), 0);
  EachLabelled(tables, [&](const DefinitionRecord& d) { ++labels[d.file]; });
  out.Texts([&](const auto& visit) {
    for (std::uint32_t file = 0; file < labels.size(); ++file) visit(index.file_name(file));
  });
  out.Unsigned([&](const auto& visit) {
    for (const std::uint64_t count : labels) visit(count);
  });
  if (contexts != nullptr) {
    out.Unsigned([&](const auto& visit) { contexts->EachRepresentative(visit); });
  }
}

/// A column whose values are labels of definitions plus 1, or 0 for none.
ColumnMeaning DefinitionOrNone(const char* column) {
  return {column, ColumnRole::kReference, "node_labels", true};
}

}  // namespace

std::vector<SourceTableSpec> CoqTableSpecs(const CoqTables& tables, const ContextTable* contexts) {
  const ColumnSpec name = {"name", ColumnType::kText};
  std::vector<SourceTableSpec> specs = {
      {{"node_classes", kNodeClasses, {name}, {}}, {}},
      {{"node_labels", tables.labels.size(), {name, {"ident", ColumnType::kSigned}}, {}},
       {"node_label", "definition"}},
      {{"edge_labels", kBaseEdgeLabels, {name}, {}}, {"edge_label"}},
      {{"tactics",
        tables.tactics.tactics().size(),
        {{"ident", ColumnType::kSigned},
         {"text", ColumnType::kText},
         {"arguments", ColumnType::kUnsigned},
         {"count", ColumnType::kUnsigned}},
        {}},
       {"tactic"},
       {{"count", ColumnRole::kCount}}},
      {{"files", tables.index().files().size(), {name, {"labels", ColumnType::kUnsigned}}, {}},
       {},
       {{"labels", ColumnRole::kRun, "node_labels"}}},
  };
  if (contexts == nullptr) return specs;
  specs[kNodeLabelTable].table.columns.push_back({"previous", ColumnType::kUnsigned});
  specs[kNodeLabelTable].meanings.push_back(DefinitionOrNone("previous"));
  specs[kFileTable].table.columns.push_back({"representative", ColumnType::kUnsigned});
  specs[kFileTable].meanings.push_back(DefinitionOrNone("representative"));
  specs.push_back({{"context_lists",
                    contexts->lists(),
                    {{"parent", ColumnType::kUnsigned}, {"file", ColumnType::kUnsigned}},
                    {}},
                   {},
                   {{"parent", ColumnRole::kReference, "context_lists"},
                    {"file", ColumnRole::kReference, "files"}},
                   true});
  specs.push_back({{"contexts",
                    contexts->size(),
                    {{"list", ColumnType::kUnsigned}, {"start", ColumnType::kUnsigned}},
                    {}},
                   {},
                   {{"list", ColumnRole::kReference, "context_lists"}, DefinitionOrNone("start")}});
  return specs;
}

void WriteCoqTable(const CoqTables& tables, const ContextTable* contexts, std::size_t table,
                   TableWriter& out) {
  switch (static_cast<CoqTable>(table)) {
    case kNodeClassTable:
      return out.Texts([](const auto& visit) { EachClassName(visit); });
    case kNodeLabelTable:
      return WriteNodeLabels(tables, contexts, out);
    case kEdgeLabelTable:
      return out.Texts([](const auto& visit) {
        for (const std::string& label : BaseEdgeLabelNames()) visit(std::string_view(label));
      });
    case kTacticTable:
      return WriteTactics(tables, out);
    case kFileTable:
      return WriteFiles(tables, contexts, out);
    case kContextListTable:
      out.Unsigned([&](const auto& visit) { contexts->EachListParent(visit); });
      return out.Unsigned([&](const auto& visit) { contexts->EachListFile(visit); });
    case kContextTable:
      out.Unsigned([&](const auto& visit) { contexts->EachContextList(visit); });
      return out.Unsigned([&](const auto& visit) { contexts->EachContextStart(visit); });
  }
}

}  // namespace millrace
