#include "server/kinds/graph/graph_view.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {

GraphView::GraphView(const GraphDataset& dataset, const StopTable& stops)
    : dataset_(dataset),
      stops_(stops),
      rows_(dataset.indptr()),
      wide_(DTypeSize(dataset.indices().type.dtype) == sizeof(std::uint64_t)),
      indices_(dataset.indices().data),
      // A negative number is read as a large one, which a larger graph could have.
      nodes_(std::min(dataset.nodes() - 1, DTypeMax(dataset.indices().type.dtype)) + 1),
      edges_(dataset.edges()),
      copied_at_once_(edges_ < kEdgesAtOnce ? 0 : edges_ - (kEdgesAtOnce - 1)),
      edge_labels_(dataset.edge_labels()),
      node_label_bound_(dataset.node_labels()) {
  if (const GraphArray* labels = dataset.Find("edge_label")) {
    labels_ = labels->data;
    edge_label_bytes_ = DTypeSize(labels->type.dtype);
  }
  if (const GraphArray* labels = dataset.Find("node_label"); labels != nullptr && !stops.empty()) {
    node_labels_ = labels->data;
    node_label_bytes_ = DTypeSize(labels->type.dtype);
  }
}

ClosureEnd GraphView::FailEdge(std::uint64_t word) {
  const bool bad_node = word >> kLabelBits >= nodes_;
  const GraphArray& array = bad_node ? dataset_.indices() : *dataset_.Find("edge_label");
  status_ = DataLoss(fmt::format("dataset {}: {}: a number is out of range, expected 0 to below {}",
                                 dataset_.dir().string(), array.Where(),
                                 bad_node ? nodes_ : edge_labels_));
  return ClosureEnd::kFailed;
}

ClosureEnd GraphView::FailNode(Node node) {
  // The numbers are read again, and may be right by now.
  status_ = dataset_.Row(node).status();
  if (status_.ok()) status_ = dataset_.NodeLabel(node).status();
  if (status_.ok()) status_ = dataset_.BadNumber(dataset_.indptr(), node, "was changed meanwhile");
  return ClosureEnd::kFailed;
}

}  // namespace millrace
