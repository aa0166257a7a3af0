// Code shared by both sources of a graph dataset: the tensors of graphs, features, columns of
// targets, static tables, and known damage.
//
// Immutable except for noted bad numbers; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/batch/batch_writer.h"
#include "common/batch/layout/integer_visit.h"
#include "common/batch/layout/layout.h"
#include "common/operations/operation.h"
#include "common/system/mutex.h"
#include "common/tensor/tensor_type.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/gathered_arrays.h"
#include "server/sampling/closure.h"
#include "server/sampling/edge_groups.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {

/// Numbers of the tensors that hold graphs.
struct GraphSourceTensors {
  std::size_t node = 0;
  std::size_t node_label = 0;  // only if the dataset has labels of nodes
  EdgeTensors edges{};         // with labels only if not all delivered edges have the same
  std::optional<std::size_t> edge = {};  // places in `indices`; only if the pipeline reads them
  std::size_t root = 0;                  // only of roots
  std::size_t hop_nodes = 0;             // only of neighbourhoods
  std::size_t hop_edges = 0;
  std::size_t example_id = 0;
};

/// A target that is a column: one number for each example.
struct TargetColumn {
  std::string name;
  const GraphArray* array;
  bool of_root;  // its rows follow the root's number, not the example's
};

/// Bounds of graphs that hold before they are built.
struct GraphBounds {
  std::uint64_t nodes = 0;                 // most nodes of a graph
  std::uint64_t edges = kMaxExampleEdges;  // most edges of an example
  std::optional<std::uint64_t> example_nodes =
      {};                                  // most nodes that an example adds; absent: nodes
  std::optional<std::uint32_t> hops = {};  // of neighbourhoods; absent: graphs have no hops
  bool merged = false;                     // one graph per batch
};

class GraphTables : public SourceTables {
 public:
  /// InvalidArgument if files are excluded, or if a requested array does not exist.
  static Result<std::shared_ptr<const GraphTables>> Make(
      std::shared_ptr<const GraphDataset> dataset, const PlanParts& parts, const ExampleList& list,
      const GraphBounds& bounds);

  const GraphDataset& dataset() const { return *dataset_; }
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  const GraphSourceTensors& numbers() const { return numbers_; }
  const ExpandSpec& expand() const { return expand_; }
  /// Labels of edges by themselves, as EdgeGroups takes them.
  std::span<const std::uint16_t> edge_classes() const { return edge_classes_; }
  /// Features and targets.
  const GatheredArrays& arrays() const { return arrays_; }
  /// Every array of the dataset whose rows an operation could give.
  LookupTables Lookups() const;
  /// An upper bound of the packed bytes of an example.
  std::uint64_t max_example_bytes() const { return max_example_bytes_; }
  /// One-dimensional targets of integers and bools, by the bytes of their names.
  const std::vector<TargetColumn>& targets() const { return targets_; }

  /// A number, or 0 if it is bad; CheckIntact then reports it.
  template <class T>
  T OrNote(Result<T> number) const {
    if (number.ok()) return *std::move(number);
    Note(number.status());
    return T{};
  }
  Status CheckIntact() const;
  /// Tables of the names of labels, if graph.json has them.
  std::vector<SourceTableSpec> TableSpecs() const override;
  void WriteTable(std::size_t table, TableWriter& out) const override;

  /// Appends the nodes of an example with their labels and features. `node_at(i)` gives node i,
  /// which is below dataset().nodes(). DataLoss for a label that is out of range.
  template <class NodeAt>
  Status AppendNodes(std::uint32_t count, const NodeAt& node_at, BatchWriter& writer) const {
    MILLRACE_RETURN_IF_ERROR(AppendLabelledNodes(count, node_at, writer));
    return arrays_.AppendNodes(count, node_at, writer);
  }

  /// Whether tensors of an example need the places of its edges in `indices`.
  bool needs_edge_places() const { return numbers_.edge || arrays_.any_of_edges(); }
  /// Appends the values at these places, in the order in which the edges were appended.
  Status AppendEdges(std::span<const std::uint64_t> places, BatchWriter& writer) const;

 private:
  template <class NodeAt>
  Status AppendLabelledNodes(std::uint32_t count, const NodeAt& node_at,
                             BatchWriter& writer) const {
    const std::uint64_t last = std::max<std::uint64_t>(dataset_->nodes(), 1) - 1;
    Append(writer, numbers_.node, count, last, node_at);
    if (node_labels_ == nullptr) return OkStatus();
    const std::uint64_t most = dataset_->node_labels() - 1;
    const std::byte* const labels = node_labels_->data;
    std::uint64_t largest = 0;
    internal::VisitInteger(node_labels_->type.dtype, [&](auto zero) {
      using Label = decltype(zero);
      Append(writer, numbers_.node_label, count, most, [&](std::uint32_t i) {
        // A negative label becomes a very large one.
        const auto label =
            static_cast<std::uint64_t>(LoadOnce<Label>(labels + node_at(i) * sizeof(Label)));
        largest = std::max(largest, label);
        return label;
      });
    });
    return largest <= most ? OkStatus() : BadNodeLabel(count, node_at);
  }
  template <class NodeAt>
  Status BadNodeLabel(std::uint32_t count, const NodeAt& node_at) const {
    for (std::uint32_t i = 0; i < count; ++i) {
      MILLRACE_RETURN_IF_ERROR(dataset_->NodeLabel(node_at(i)).status());
    }
    return dataset_->BadNumber(*node_labels_, node_at(0), "or another one was changed meanwhile");
  }

  explicit GraphTables(std::shared_ptr<const GraphDataset> dataset)
      : dataset_(std::move(dataset)), node_labels_(dataset_->Find("node_label")) {}
  void FindTargets(const ExampleList& list);
  void MakeTensors(const ExampleList& list, const GraphBounds& bounds, bool with_places);
  std::uint64_t MostBytes(const GraphBounds& bounds) const;
  void FindLookups();
  std::size_t Add(std::string path, TensorKind kind, std::string dimension, std::uint64_t max,
                  std::string splits, Expansion expansion = Expansion::kWiden);
  void Note(const Status& bad) const;

  /// Appends `count` values, which are at most `max`, to a tensor of unsigned integers.
  template <class ValueAt>
  static void Append(BatchWriter& writer, std::size_t tensor, std::uint32_t count,
                     std::uint64_t max, const ValueAt& value_at) {
    switch (writer.value_bytes(tensor)) {
      case 1:
        return AppendAs<std::uint8_t>(writer, tensor, count, max, value_at);
      case 2:
        return AppendAs<std::uint16_t>(writer, tensor, count, max, value_at);
      case 4:
        return AppendAs<std::uint32_t>(writer, tensor, count, max, value_at);
      default:
        return AppendAs<std::uint64_t>(writer, tensor, count, max, value_at);
    }
  }
  template <class T, class ValueAt>
  static void AppendAs(BatchWriter& writer, std::size_t tensor, std::uint32_t count,
                       std::uint64_t max, const ValueAt& value_at) {
    T* const room = writer.AppendRoom<T>(tensor, count, max);
    for (std::uint32_t i = 0; i < count; ++i) room[i] = static_cast<T>(value_at(i));
  }

  const std::shared_ptr<const GraphDataset> dataset_;
  const GraphArray* const node_labels_;  // nullptr without labels
  std::vector<TensorSpec> tensors_;
  GraphSourceTensors numbers_;
  GatheredArrays arrays_;
  std::uint64_t max_example_bytes_ = 0;
  ExpandSpec expand_;
  std::vector<std::uint16_t> edge_classes_;
  std::vector<TargetColumn> targets_;
  std::map<std::string, TensorType> lookup_types_;  // of arrays, by name
  mutable Mutex mutex_;
  mutable Status bad_ MILLRACE_GUARDED_BY(mutex_);  // the first bad number of a column
};

}  // namespace millrace
