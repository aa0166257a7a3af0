// Node labels of a plan: 26 classes, then the plan's definitions in order. With restrict_to_spine
// only definitions on their file's spine have labels, in the order of the spine.
//
// Nothing is copied from the index: labels are computed from its records.
//
// Immutable; thread-safe. Refers to the index, which has to outlive it.
#pragma once

#include <cstdint>

#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/coq/scan/node_words.h"

namespace millrace {

class NodeLabels {
 public:
  /// What Find answers for a node that is no definition. kNone: a definition without label.
  static constexpr std::uint32_t kNoDefinition = 0xFFFFFFFE;

  NodeLabels(const DatasetIndex& index, bool restrict_to_spine)
      : index_(&index),
        spine_only_(restrict_to_spine),
        labelled_(static_cast<std::uint32_t>(restrict_to_spine ? index.spines().size()
                                                               : index.definitions().size())) {}

  /// Labels: classes and definitions.
  std::uint32_t size() const { return kNodeClasses + labelled_; }
  /// Definitions with a label.
  std::uint32_t labelled() const { return labelled_; }

  /// Label of a definition, kNone where it has none.
  std::uint32_t Label(std::uint32_t definition) const {
    return spine_only_ ? SpineLabel(definition) : kNodeClasses + definition;
  }
  /// REQUIRES: kNodeClasses <= label < size().
  std::uint32_t Definition(std::uint32_t label) const {
    return spine_only_ ? index_->spines()[label - kNodeClasses] : label - kNodeClasses;
  }

  /// Label of the definition at a node, kNone or kNoDefinition. One probe of a flat table, which
  /// the first call makes.
  std::uint32_t Find(NodeRef node) const {
    const std::uint32_t definition = index_->definition_table().Find(node);
    return definition == kNone ? kNoDefinition : Label(definition);
  }
  /// Hint: Find will be called with the node soon.
  void Prefetch(NodeRef node) const { index_->definition_table().Prefetch(node); }

 private:
  /// The spines of the files follow one another, each from its representative backward.
  std::uint32_t SpineLabel(std::uint32_t definition) const {
    const DefinitionRecord& record = index_->definitions()[definition];
    if (record.on_spine == 0) return kNone;
    const FileRecord& file = index_->files()[record.file];
    return kNodeClasses + file.spine.first +
           (index_->definitions()[file.representative].depth - record.depth);
  }

  const DatasetIndex* index_;
  bool spine_only_;
  std::uint32_t labelled_;
};

/// Name of a node class, as users of these datasets know it.
const char* NodeClassName(std::uint32_t node_class);

}  // namespace millrace
