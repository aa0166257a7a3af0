// The layout of a batch: its tensors, their types, and the header before the payload.
// docs/formats/batch.md describes it for readers written in other languages.
//
// Thread-compatible value types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/ids.h"
#include "common/base/result.h"

namespace millrace {

/// Every tensor of a payload begins at a multiple of this, and so does the payload itself.
inline constexpr std::uint64_t kTensorAlignment = 64;

/// No example in a batch has more nodes. A larger one is dropped as `too_large`.
inline constexpr std::uint32_t kMaxExampleNodes = 1u << 20;

/// The largest bound of a class that a batch can have.
inline constexpr std::uint32_t kMaxClassBound = 0x7FFFFFFF;

enum class TensorKind : std::uint8_t {
  kDense,           // one row per example or graph
  kRaggedValues,    // the rows of all graphs, one after another; `splits` says where they are cut
  kSplits,          // a row per example or graph, and one more; begins with 0, never decreases
  kStringBytes,     // UTF-8 or other bytes; the tensor in `splits` cuts them
  kTableReference,  // [B], row numbers in a static table
};
std::string_view TensorKindName(TensorKind kind);
/// Empty if no kind has that name. The same holds for the other enumerations below.
std::optional<TensorKind> TensorKindFromName(std::string_view name);

/// The work of expansion on the values of a packed tensor. All except kKeep deliver them as
/// integers of one width, the session's index type.
enum class Expansion : std::uint8_t {
  kWiden,       // the integers as they are
  kNodeOffset,  // the number of a node in its example becomes its number in the batch
  kEdgeSource,  // like kNodeOffset; also adds the reversed edges and the self-loops
  kEdgeTarget,  // the same, for the other end of each edge
  kEdgeLabel,   // adds the labels of the added edges
  kEdgeSplits,  // counts of the complete edges
  kKeep,        // the values as they are, with the packed type
};
std::string_view ExpansionName(Expansion expansion);
std::optional<Expansion> ExpansionFromName(std::string_view name);

enum class Symmetrization : std::uint8_t { kDirected, kUndirected, kBidirectional };
std::string_view SymmetrizationName(Symmetrization symmetrization);
std::optional<Symmetrization> SymmetrizationFromName(std::string_view name);

/// How the edges in the batches of a plan are completed, and how nodes are numbered.
struct ExpandSpec {
  std::uint32_t base_edge_labels = 0;
  Symmetrization symmetrization = Symmetrization::kDirected;
  bool add_self_edges = false;
  bool merged = false;  // a batch is one graph, which its examples share

  /// The number of different edge labels in delivered batches.
  std::uint32_t edge_labels() const {
    return base_edge_labels * (symmetrization == Symmetrization::kBidirectional ? 2 : 1) +
           (add_self_edges ? 1 : 0);
  }
  friend bool operator==(const ExpandSpec&, const ExpandSpec&) = default;
};

/// The dimension of tensors with a row for each graph, and of splits that cut nodes and edges, in
/// merged batches. Others have a row for each example, which has a graph of its own.
inline constexpr std::string_view kGraphsDimension = "graphs";
inline constexpr std::string_view kGraphSplitsDimension = "graphs+1";

/// One tensor that every batch of a plan has. Its number in the plan's list is its number in a
/// batch.
struct TensorSpec {
  std::string path;  // for example "node_label"; '/' separates the branches of later pipelines
  TensorKind kind = TensorKind::kDense;
  DType dtype = DType::kUint8;       // of the packed values
  std::string dimension;             // what the rows are, for example "nodes"
  std::vector<std::uint64_t> inner;  // extents of a row, outermost first; empty: a row is one value
  std::string splits;                // path of the splits tensor, for ragged values and strings
  std::string node_splits;           // path of the splits that number nodes; empty: not needed
  std::int64_t min = 0;              // inclusive bounds of packed integers; 0 for other types
  std::uint64_t max = 0;
  Expansion expansion = Expansion::kWiden;

  /// The number of values in a row, and their size.
  std::uint64_t row_values() const {
    std::uint64_t values = 1;
    for (const std::uint64_t extent : inner) values *= extent;
    return values;
  }
  std::uint64_t row_bytes() const { return row_values() * DTypeSize(dtype); }
  /// Whether its rows, or what it cuts, belong to graphs and not to examples.
  bool of_graphs() const {
    return dimension == (kind == TensorKind::kSplits ? kGraphSplitsDimension : kGraphsDimension) &&
           splits.empty();
  }
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Why an example of a batch's range is not in the batch. Every kind of dataset has these reasons.
/// A kind may have reasons of its own, with other numbers from 1 to kDropReasons - 1
/// (SourceFacts::drop_reasons). drop_reasons.h has the names for display.
enum class DropReason : std::uint8_t {
  kTooLarge = 2,
  kExcluded = 4,
};
inline constexpr std::array kNamedDropReasons = {DropReason::kTooLarge, DropReason::kExcluded};
/// The numbers of reasons are below this, so that a report has room for a count of each.
inline constexpr std::size_t kDropReasons = 64;
/// "too_large" or "excluded". REQUIRES: the reason is one of these.
std::string_view DropReasonName(DropReason reason);

struct DroppedExample {
  ExampleId id;
  DropReason reason = DropReason::kTooLarge;
  friend bool operator==(const DroppedExample&, const DroppedExample&) = default;
};

/// No row that documents are packed into has more pieces of them.
inline constexpr std::uint64_t kMaxRowPieces = std::uint64_t{1} << 20;

/// How many pieces of packed documents the rows of a batch's range lack for one reason: that of
/// their documents.
struct LostPieces {
  DropReason reason = DropReason::kExcluded;
  std::uint64_t pieces = 0;
  friend bool operator==(const LostPieces&, const LostPieces&) = default;
};

/// The description of a batch in its header. It says nothing about the run: no worker, rank
/// or world size.
struct BatchInfo {
  Fingerprint fingerprint;
  std::uint64_t epoch = 0;
  std::uint64_t first_example = 0;     // place in the order of the epoch
  std::uint32_t planned_examples = 0;  // in the range: examples in the batch and dropped ones
  ExpandSpec expand;
  std::vector<ExampleId> example_ids;   // in row order
  std::vector<DroppedExample> dropped;  // in the order of the range
  std::vector<LostPieces> lost_pieces;  // by reason, ascending; at least one piece each
  std::optional<std::uint32_t> bound;   // of the class of its examples, if a tensor is padded to it

  /// The number of graphs: one for each example, or one for all of them.
  std::size_t graphs() const { return expand.merged ? 1 : example_ids.size(); }
  /// The rows of a tensor that no splits cut.
  std::uint64_t RowsOf(const TensorSpec& tensor) const {
    const std::size_t rows = tensor.of_graphs() ? graphs() : example_ids.size();
    return rows + (tensor.kind == TensorKind::kSplits ? 1 : 0);
  }
  friend bool operator==(const BatchInfo&, const BatchInfo&) = default;
};

/// A tensor's place in one batch's payload.
struct TensorPlace {
  TensorSpec spec;
  std::uint64_t rows = 0;
  std::uint64_t offset = 0;  // from the start of the payload
  std::uint64_t bytes = 0;   // without padding
};

}  // namespace millrace
