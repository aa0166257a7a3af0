// Tensors whose rows are copied from arrays of a dataset: features of nodes and of edges, and
// targets. The values go into batches as they are in the files.
//
// Immutable and thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ask_for_line.h"
#include "common/base/result.h"
#include "common/batch/batch_writer.h"
#include "common/batch/layout/layout.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/graph_parts.h"

namespace millrace {

/// The advice for pipelines that want features of edges, which only edges of the dataset have.
inline constexpr std::string_view kNoAddedEdges =
    "edges: {symmetrization: none, add_self_edges: false}";

/// The prefix of the names of node features.
inline constexpr const char* kNodeFeatures = "node_feature/";

/// The examples of a source, as far as arrays belong to them.
struct ExampleList {
  std::string name;            // of the list: targets/NAME/Y are its targets
  std::uint64_t examples = 0;  // their number
  bool roots = false;          // a list of roots, so node_feature/Y may be a target
};

/// The array targets/NAME/`target` of the list, or nullptr. If roots and graphs have a list of the
/// same name, the targets belong to the roots. If only graphs have one, they do not belong to
/// `roots: all`, which needs no list.
const GraphArray* FindTarget(const GraphDataset& dataset, const ExampleList& list,
                             std::string_view target);

class GatheredArrays final : public LateRows {
 public:
  /// `tensors` gets one tensor for each array of the part. InvalidArgument, with the existing
  /// arrays, if the dataset lacks one. `added_edges`: consumers add edges to a batch, which have no
  /// features. `dataset` has to outlive the object.
  static Result<GatheredArrays> Make(const GraphDataset& dataset, const GraphArraysPart& part,
                                     const ExampleList& list, bool added_edges,
                                     std::vector<TensorSpec>& tensors);

  GatheredArrays() = default;

  bool any_of_edges() const { return !edges_.empty(); }
  /// Whether an array has a row for each example of the list, found by the example's number.
  bool any_by_row() const;
  /// The names of all arrays.
  std::vector<std::string> names() const;

  /// Says which tensor has the nodes of batches, by whose numbers late rows of features are found.
  void SetNodes(std::size_t tensor) { node_ = tensor; }
  std::span<const std::size_t> tensors() const override { return late_; }
  Status Write(std::size_t tensor, const BatchWriter& writer, std::span<std::byte> out,
               const Filled& filled) const override;

  /// Append the rows of an example. `row_at(i)` is the node, or the place in `indices`, of row i,
  /// which the caller has checked. DataLoss for a bool that is neither 0 nor 1.
  template <class RowAt>
  Status AppendNodes(std::uint32_t count, const RowAt& row_at, BatchWriter& writer) const {
    for (const Gathered& gathered : nodes_) {
      if (writer.may_be_late(gathered.tensor)) {
        writer.AppendLate(gathered.tensor, count);
      } else {
        MILLRACE_RETURN_IF_ERROR(AppendRows(gathered, count, row_at, writer));
      }
    }
    return OkStatus();
  }
  template <class RowAt>
  Status AppendEdges(std::uint32_t count, const RowAt& row_at, BatchWriter& writer) const {
    for (const Gathered& gathered : edges_) {
      MILLRACE_RETURN_IF_ERROR(AppendRows(gathered, count, row_at, writer));
    }
    return OkStatus();
  }
  /// Appends the targets of an example. `root`: its root; not used without one.
  Status AppendTargets(std::uint64_t example, std::uint64_t root, BatchWriter& writer) const;

 private:
  struct Gathered {
    std::size_t tensor;
    const GraphArray* array;
    std::uint64_t row_bytes;
    bool bools;
    bool of_root = false;  // a target whose rows follow the root's number, not the example's
  };
  static constexpr std::uint32_t kRowsAhead = 32;
  static constexpr std::uint64_t kFilledAtOnce = 64 << 10;  // bytes that are announced as final
  static constexpr std::uint64_t kMostAsked = 1024;  // bytes; the processor prefetches the others

  explicit GatheredArrays(const GraphDataset& dataset) : dataset_(&dataset) {}

  template <class RowAt>
  Status AppendRows(const Gathered& from, std::uint32_t count, const RowAt& row_at,
                    BatchWriter& writer) const {
    return CopyRows(from, 0, count, count, row_at, writer.AppendRows(from.tensor, count).data());
  }

  /// Copies rows [begin, end) of `count` into the room for all `count`.
  template <class RowAt>
  Status CopyRows(const Gathered& from, std::uint32_t begin, std::uint32_t end, std::uint32_t count,
                  const RowAt& row_at, std::byte* room) const {
    // Rows are far from each other, so each is prefetched.
    const std::uint64_t asked = std::min(from.row_bytes, kMostAsked);
    const std::byte* const data = from.array->data;
    for (std::uint32_t i = begin; i < end; ++i) {
      if (i + kRowsAhead < count)
        AskForLines(data + row_at(i + kRowsAhead) * from.row_bytes, asked);
      std::memcpy(room + i * from.row_bytes, data + row_at(i) * from.row_bytes, from.row_bytes);
    }
    if (!from.bools) return OkStatus();
    for (std::uint32_t i = begin; i < end; ++i) {
      MILLRACE_RETURN_IF_ERROR(CheckBools(from, row_at(i), room + i * from.row_bytes));
    }
    return OkStatus();
  }
  Status CheckBools(const Gathered& from, std::uint64_t row, const std::byte* values) const;

  const GraphDataset* dataset_ = nullptr;
  std::vector<Gathered> nodes_;
  std::vector<Gathered> edges_;
  std::vector<Gathered> targets_;
  std::vector<std::size_t> late_;  // the tensors of nodes_
  std::size_t node_ = 0;
};

}  // namespace millrace
