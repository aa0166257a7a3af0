// Global contexts of a plan. They say which definitions were available where a definition was
// proved, and at which position. No context is written out.
//
// A context is the spines of a list of required files, in order, followed by the definition's own
// chain of predecessors. The lists of one file extend each other, so they are kept as a tree: list
// l is its parent's list and one more file. A position is found from the tree and from the numbers
// of the `previous` forest, in O(log lists that end with the file).
//
// Contexts with equal values share a number. Numbers follow the first use, in the order of the
// given definitions. The table takes 4 bytes for each definition, 8 for each context and 28 for
// each list.
//
// Immutable; thread-safe. Refers to the index and the labels, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/node_labels.h"

namespace millrace {

class ContextTable {
 public:
  /// `definitions`: the definitions whose contexts are wanted, in the order of first use.
  ContextTable(const DatasetIndex& index, const NodeLabels& labels,
               std::span<const std::uint32_t> definitions);

  /// Number of distinct contexts.
  std::uint32_t size() const { return static_cast<std::uint32_t>(contexts_.size()); }
  /// Number of definitions in the largest context.
  std::uint64_t max_length() const { return max_length_; }

  /// The number of a definition's context. REQUIRES: the definition was given to the constructor.
  std::uint32_t Id(std::uint32_t definition) const { return id_of_[definition]; }
  /// Number of definitions in a context.
  std::uint64_t Length(std::uint32_t context) const { return Length(contexts_[context]); }
  /// The position of a definition in a context, or kNoRef.
  std::uint32_t Position(std::uint32_t context, std::uint32_t definition) const;
  /// Appends the node labels of a context, in order.
  void AppendLabels(std::uint32_t context, std::vector<std::uint32_t>* out) const {
    AppendLabels(contexts_[context], out);
  }

  // The columns of the tables that are served (coq_static.h). Each calls visit(std::uint64_t) for
  // every row. A definition is given by its label plus 1, or by 0 for no definition.

  /// For each node label: the definition before this one in its file's chain.
  template <class Visit>
  void EachPrevious(const Visit& visit) const {
    for (std::uint32_t c = 0; c < kNodeClasses; ++c) visit(0);
    for (std::uint32_t label = kNodeClasses; label < labels_->size(); ++label) {
      visit(LabelOrNone(index_->definitions()[labels_->Definition(label)].previous));
    }
  }
  /// For each file: its representative.
  template <class Visit>
  void EachRepresentative(const Visit& visit) const {
    for (const FileRecord& file : index_->files()) visit(LabelOrNone(file.representative));
  }
  /// For each list of required files: the list that it extends, and the file that it adds.
  std::uint64_t lists() const { return lists_.size(); }
  template <class Visit>
  void EachListParent(const Visit& visit) const {
    for (const List& list : lists_) visit(list.parent);
  }
  template <class Visit>
  void EachListFile(const Visit& visit) const {
    for (const List& list : lists_) visit(list.file);
  }
  /// For each context: its list, and the first definition of its own chain.
  template <class Visit>
  void EachContextList(const Visit& visit) const {
    for (const Context& context : contexts_) visit(context.list);
  }
  template <class Visit>
  void EachContextStart(const Visit& visit) const {
    for (const Context& context : contexts_) visit(LabelOrNone(context.start));
  }

 private:
  /// A node of the tree of lists. List 0 is the empty list.
  struct List {
    std::uint32_t parent;
    std::uint32_t file;
    std::uint32_t enter;   // places in a walk of the tree: list l is m or extends m exactly if
    std::uint32_t exit;    // m.enter <= l.enter && l.enter < m.exit
    std::uint64_t length;  // definitions in the spines of all files of the list
  };
  struct Context {
    std::uint32_t list;
    std::uint32_t start;  // first definition of the own chain, or kNoRef
  };
  class Builder;

  std::uint64_t Length(Context context) const;
  void AppendLabels(Context context, std::vector<std::uint32_t>* out) const;
  std::uint32_t FindInList(std::uint32_t list, std::uint32_t file) const;
  bool IsBefore(std::uint32_t ancestor, std::uint32_t definition) const;
  std::uint64_t LabelOrNone(std::uint32_t definition) const {
    const std::uint32_t label = definition == kNoRef ? kNoRef : labels_->Label(definition);
    return label == kNoRef ? 0 : std::uint64_t{label} + 1;
  }

  const DatasetIndex* index_;
  const NodeLabels* labels_;
  std::vector<List> lists_;
  std::vector<std::uint32_t> lists_of_file_;       // the lists that end with each file, by enter
  std::vector<std::uint32_t> first_list_of_file_;  // in lists_of_file_; one more entry than files
  std::vector<Context> contexts_;
  std::vector<std::uint32_t> id_of_;  // one for each definition
  std::uint64_t max_length_ = 0;
};

}  // namespace millrace
