// The rows of a graph dataset as the sampler of neighbourhoods reads them (neighbor_sampler.h): the
// mapped arrays, of which every value is read once.
//
// Immutable; thread-safe. Refers to the dataset, which must outlive it.
#pragma once

#include <cstdint>

#include "common/base/ask_for_line.h"
#include "common/base/dtype.h"
#include "common/base/result.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/row_pointers.h"

namespace millrace {

/// Index: the unsigned type as wide as the values of indices.
template <class Index>
class MappedRows {
 public:
  using Node = Index;

  /// REQUIRES: the dataset's arrays have this type.
  explicit MappedRows(const GraphDataset& dataset)
      : dataset_(&dataset),
        rows_(dataset.indptr()),
        indices_(dataset.indices().data),
        labels_(dataset.Find("edge_label")),
        nodes_(dataset.nodes()),
        edges_(dataset.edges()),
        edge_labels_(dataset.edge_labels()) {}

  std::uint64_t nodes() const { return nodes_; }

  /// Prefetch the data of LoadRow and LoadEntry: a row soon, and entries later.
  void AskForRow(Node node) const {
    AskForNearLine(rows_.BeginAt(node));
  }
  void AskForEntry(std::uint64_t place) const { AskForLine(indices_ + place * sizeof(Index)); }
  void AskForEntries(std::uint64_t place, std::uint64_t count) const {
    AskForLines(indices_ + place * sizeof(Index), count * sizeof(Index));
  }

  bool LoadRow(Node node, std::uint64_t* begin, std::uint64_t* end) const {
    return rows_.Load(node, edges_, begin, end);
  }
  Node LoadEntry(std::uint64_t place) const {
    return LoadOnce<Index>(indices_ + place * sizeof(Index));
  }
  /// Without labels, every label is 0.
  bool LoadLabel(std::uint64_t place, std::uint32_t* label) const {
    const std::uint64_t value = labels_ == nullptr ? 0 : labels_->NumberAt(place);
    *label = static_cast<std::uint32_t>(value);
    return value < edge_labels_;
  }

  Status BadRow(Node node) const {
    const Status status = dataset_->Row(node).status();
    return status.ok() ? Changed(dataset_->indptr(), node) : status;
  }
  Status BadEntry(std::uint64_t place) const {
    const Status status = dataset_->Neighbour(place).status();
    return status.ok() ? Changed(dataset_->indices(), place) : status;
  }
  Status BadLabel(std::uint64_t place) const {
    const Status status = dataset_->EdgeLabel(place).status();
    return status.ok() ? Changed(*labels_, place) : status;
  }

 private:
  Status Changed(const GraphArray& array, std::uint64_t place) const {
    return dataset_->BadNumber(array, place, "was changed meanwhile");
  }

  const GraphDataset* dataset_;
  RowPointers rows_;
  const std::byte* indices_;
  const GraphArray* labels_;  // nullptr without labels
  std::uint64_t nodes_;
  std::uint64_t edges_;
  std::uint64_t edge_labels_;
};

/// Calls `use` with MappedRows of the dataset, of the type that its arrays need.
template <class Use>
auto WithMappedRows(const GraphDataset& dataset, Use use) {
  const bool wide = DTypeSize(dataset.indices().type.dtype) == sizeof(std::uint64_t);
  return wide ? use(MappedRows<std::uint64_t>(dataset)) : use(MappedRows<std::uint32_t>(dataset));
}

}  // namespace millrace
