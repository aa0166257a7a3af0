// Node labels of a plan: 26 classes, then the plan's definitions in order. With restrict_to_spine
// only definitions on their file's spine have labels, in the order of the spine.
//
// Immutable; thread-safe. Refers to the index, which has to outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "server/dataset/dataset_index.h"
#include "server/dataset/node_words.h"

namespace millrace {

class NodeLabels {
 public:
  /// What Find answers for a node that is no definition. kNone: a definition without label.
  static constexpr std::uint32_t kNoDefinition = 0xFFFFFFFE;

  NodeLabels(const DatasetIndex& index, bool restrict_to_spine);

  /// Labels: classes and definitions.
  std::uint32_t size() const { return kNodeClasses + labelled_; }
  /// Definitions with a label.
  std::uint32_t labelled() const { return labelled_; }

  /// Label of a definition, kNone where it has none.
  std::uint32_t Label(std::uint32_t definition) const {
    return label_of_.empty() ? kNodeClasses + definition : label_of_[definition];
  }
  /// REQUIRES: kNodeClasses <= label < size().
  std::uint32_t Definition(std::uint32_t label) const {
    return label_of_.empty() ? label - kNodeClasses : definition_of_[label - kNodeClasses];
  }

  /// Label of the definition at a node, kNone or kNoDefinition. One probe of a flat table.
  std::uint32_t Find(NodeRef node) const {
    const std::uint64_t key = Key(node);
    for (std::uint64_t slot = Hash(key) >> shift_;; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].label;
      if (slots_[slot].key == kEmpty) return kNoDefinition;
    }
  }
  /// Hint: Find will be called with the node soon.
  void Prefetch(NodeRef node) const { __builtin_prefetch(&slots_[Hash(Key(node)) >> shift_]); }

 private:
  struct Slot {
    std::uint64_t key;
    std::uint32_t label;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  static std::uint64_t Key(NodeRef node) {
    return static_cast<std::uint64_t>(node.file) << 32 | node.node;
  }
  static std::uint64_t Hash(std::uint64_t key) { return key * 0x9E3779B97F4A7C15u; }
  void Insert(NodeRef node, std::uint32_t label);

  std::uint32_t labelled_;
  std::vector<std::uint32_t> label_of_;  // empty: label = class count + definition
  std::vector<std::uint32_t> definition_of_;
  std::vector<Slot> slots_;  // open addressing, at most half full
  std::uint64_t mask_;
  int shift_;
};

/// Name of a node class, as users of these datasets know it.
const char* NodeClassName(std::uint32_t node_class);

}  // namespace millrace
