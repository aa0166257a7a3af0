#include "server/dataset/coq/source/static_tables.h"

#include <string>
#include <vector>

#include "millrace/v1/common.pb.h"
#include "server/dataset/coq/source/wire_fields.h"

namespace millrace {
namespace {

using wire_fields::LengthFieldSize;
using wire_fields::Out;

class VocabularyWriter {
  // These functions stand before those that use them, because their return types must be known
  // there.
  template <class Visit>
  void ForEachName(const Visit& visit) const {
    for (std::uint32_t c = 0; c < kNodeClasses; ++c) visit(std::string_view(NodeClassName(c)));
    ForEachDefinition([&](const DefinitionRecord& d) { visit(index_.string(d.name)); });
  }
  template <class Visit>
  void ForEachDefinition(const Visit& visit) const {
    for (std::uint32_t label = kNodeClasses; label < tables_.labels.size(); ++label) {
      visit(index_.definitions()[tables_.labels.Definition(label)]);
    }
  }
  auto EachIdent() const {
    return [this](const auto& visit) {
      for (std::uint32_t c = 0; c < kNodeClasses; ++c) visit(0);
      ForEachDefinition([&](const DefinitionRecord& d) { visit(wire_fields::ZigZag(d.identity)); });
    };
  }

 public:
  explicit VocabularyWriter(const CoqTables& tables) : tables_(tables), index_(tables.index()) {
    for (const std::string& name : BaseEdgeLabelNames()) *rest_.add_edge_label_names() = name;
    for (const PlanTactic& tactic : tables.tactics.tactics()) {
      const TacticRecord& record = index_.tactics()[tactic.record];
      v1::Tactic& out = *rest_.add_tactics();
      out.set_ident(record.ident);
      out.set_base_text(std::string(index_.string(record.base_text)));
      out.set_arguments(tactic.arguments);
      out.set_count(tactic.count);
    }
    std::vector<std::uint32_t> labels_of_file(index_.files().size(), 0);
    ForEachDefinition([&](const DefinitionRecord& d) { ++labels_of_file[d.file]; });
    for (std::uint32_t file = 0; file < labels_of_file.size(); ++file) {
      *rest_.add_files() = index_.file_name(file);
      rest_.add_labels_of_file(labels_of_file[file]);
    }
    ForEachName([this](std::string_view name) {
      bytes_ += LengthFieldSize(v1::Vocabulary::kNodeLabelNamesFieldNumber, name.size());
    });
    bytes_ +=
        wire_fields::PackedFieldSize(v1::Vocabulary::kNodeLabelIdentsFieldNumber, EachIdent());
    bytes_ += rest_.ByteSizeLong();
  }

  std::size_t bytes() const { return bytes_; }

  void Write(Out& out) const {
    ForEachName([&out](std::string_view name) {
      wire_fields::WriteString(v1::Vocabulary::kNodeLabelNamesFieldNumber, name, out);
    });
    wire_fields::WritePacked(v1::Vocabulary::kNodeLabelIdentsFieldNumber, EachIdent(), out);
    rest_.SerializeWithCachedSizes(&out);
  }

 private:
  const CoqTables& tables_;
  const DatasetIndex& index_;
  v1::Vocabulary rest_;  // the fields after the names and identities of node labels
  std::size_t bytes_ = 0;
};

}  // namespace

void WriteStaticTables(const CoqTables& tables, const ContextTable* contexts, Out& out) {
  const VocabularyWriter vocabulary(tables);
  wire_fields::WriteLengthTag(v1::Static::kVocabularyFieldNumber, vocabulary.bytes(), out);
  vocabulary.Write(out);
  if (contexts == nullptr) return;
  wire_fields::WriteLengthTag(v1::Static::kContextsFieldNumber, contexts->SerializedBytes(), out);
  contexts->Serialize(out);
}

}  // namespace millrace
