// Node labels of a plan: 26 classes, then the plan's definitions in order. With restrict_to_spine,
// only definitions on their file's spine have labels, in the order of the spine.
//
// Nothing is copied from the index: labels are computed from its records.
//
// Immutable; thread-safe. Refers to the index, which must outlive it.
#pragma once

#include <cstdint>

#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/scan/node_words.h"

namespace millrace {

class NodeLabels {
 public:
  /// Find returns this for a node that is not a definition. It returns kNoRef for a definition
  /// without a label.
  static constexpr std::uint32_t kNoDefinition = 0xFFFFFFFE;

  NodeLabels(const DatasetIndex& index, bool restrict_to_spine)
      : index_(&index),
        spine_only_(restrict_to_spine),
        labelled_(static_cast<std::uint32_t>(restrict_to_spine ? index.spines().size()
                                                               : index.definitions().size())) {}

  /// Number of labels: classes and definitions.
  std::uint32_t size() const { return kNodeClasses + labelled_; }
  /// Whether only definitions on a spine have labels.
  bool spine_only() const { return spine_only_; }
  /// Number of definitions that have a label.
  std::uint32_t labelled() const { return labelled_; }

  /// The label of a definition; kNoRef if it has no label.
  std::uint32_t Label(std::uint32_t definition) const {
    return spine_only_ ? SpineLabel(definition) : kNodeClasses + definition;
  }
  /// REQUIRES: kNodeClasses <= label < size().
  std::uint32_t Definition(std::uint32_t label) const {
    return spine_only_ ? index_->spines()[label - kNodeClasses] : label - kNodeClasses;
  }

  /// The label of the definition at a node; also kNoRef or kNoDefinition. Takes one probe of a flat
  /// table. The first call makes the table.
  std::uint32_t Find(NodeRef node) const {
    const std::uint32_t definition = index_->definition_table().Find(node);
    return definition == kNoRef ? kNoDefinition : Label(definition);
  }
  /// Hints that Find will be called with this node soon.
  void Prefetch(NodeRef node) const { index_->definition_table().Prefetch(node); }

 private:
  /// The spines of the files follow each other; each goes from its representative backward.
  std::uint32_t SpineLabel(std::uint32_t definition) const {
    const DefinitionRecord& record = index_->definitions()[definition];
    if (record.on_spine == 0) return kNoRef;
    const FileRecord& file = index_->files()[record.file];
    return kNodeClasses + file.spine.first +
           (index_->definitions()[file.representative].depth - record.depth);
  }

  const DatasetIndex* index_;
  bool spine_only_;
  std::uint32_t labelled_;
};

/// The name of a node class, as users of these datasets know it.
const char* NodeClassName(std::uint32_t node_class);

}  // namespace millrace
