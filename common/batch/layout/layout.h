// The layout of a batch: its tensors, their types, and the header before the payload.
// docs/batch-layout.md describes the same for readers written in other languages.
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

#include "common/base/ids.h"
#include "common/base/result.h"

namespace millrace {

/// Every tensor of a payload begins at a multiple of this, and so does the payload itself.
inline constexpr std::uint64_t kTensorAlignment = 64;

/// No example in a batch has more nodes. A larger one is dropped as `too_large`.
inline constexpr std::uint32_t kMaxExampleNodes = 1u << 20;

enum class DType : std::uint8_t {
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64
};
std::uint32_t DTypeSize(DType dtype);
/// "uint8", … "int64".
std::string_view DTypeName(DType dtype);
/// Empty if no type has that name. The same holds for the other enumerations below.
std::optional<DType> DTypeFromName(std::string_view name);
/// The narrowest type that holds [min, max]; an unsigned one if min >= 0.
DType NarrowestDType(std::int64_t min, std::uint64_t max);

enum class TensorKind : std::uint8_t {
  kDense,           // one row per graph, node or edge
  kRaggedValues,    // the rows of all graphs, one after another; `splits` says where they are cut
  kSplits,          // [B + 1], begins with 0, never decreases
  kStringBytes,     // UTF-8 or other bytes; the tensor in `splits` cuts them
  kTableReference,  // [B], row numbers in a static table
};
std::string_view TensorKindName(TensorKind kind);
std::optional<TensorKind> TensorKindFromName(std::string_view name);

/// The work of expansion on the values of a packed tensor, besides widening them.
enum class Expansion : std::uint8_t {
  kWiden,       // nothing more
  kNodeOffset,  // the number of a node in its example becomes its number in the batch
  kEdgeSource,  // like kNodeOffset; also adds the reversed edges and the self edges
  kEdgeTarget,  // the same, for the other end of each edge
  kEdgeLabel,   // adds the labels of the added edges
  kEdgeSplits,  // counts of the complete edges
};
std::string_view ExpansionName(Expansion expansion);

enum class Symmetrization : std::uint8_t { kDirected, kUndirected, kBidirectional };
std::string_view SymmetrizationName(Symmetrization symmetrization);
std::optional<Symmetrization> SymmetrizationFromName(std::string_view name);

/// How the edges in the batches of a plan are completed.
struct ExpandSpec {
  std::uint32_t base_edge_labels = 0;
  Symmetrization symmetrization = Symmetrization::kDirected;
  bool add_self_edges = false;

  /// The number of different edge labels in delivered batches.
  std::uint32_t edge_labels() const {
    return base_edge_labels * (symmetrization == Symmetrization::kBidirectional ? 2 : 1) +
           (add_self_edges ? 1 : 0);
  }
  friend bool operator==(const ExpandSpec&, const ExpandSpec&) = default;
};

/// One tensor that every batch of a plan has. Its number in the plan's list is its number in a
/// batch.
struct TensorSpec {
  std::string path;  // for example "node_label"; '/' separates the branches of later pipelines
  TensorKind kind = TensorKind::kDense;
  DType dtype = DType::kUint8;          // of the packed values
  std::vector<std::string> dimensions;  // outermost first, for example {"nodes"}
  std::string splits;                   // path of the splits tensor, for ragged values and strings
  std::string node_splits;              // path of the splits that number nodes; empty: not needed
  std::int64_t min = 0;                 // inclusive bounds of the packed values
  std::uint64_t max = 0;
  Expansion expansion = Expansion::kWiden;

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Why an example of a batch's range is not in the batch. A batch from a newer worker may have a
/// number from 1 to kDropReasons - 1 that has no name here. drop_reasons.h says how to show it.
enum class DropReason : std::uint8_t {
  kContextCutOff = 1,
  kTooLarge = 2,
  kUnlabelledDefinition = 3,
  kExcluded = 4,
};
inline constexpr std::array kNamedDropReasons = {DropReason::kContextCutOff, DropReason::kTooLarge,
                                                 DropReason::kUnlabelledDefinition,
                                                 DropReason::kExcluded};
/// The numbers of reasons are below this, so that a report has room for a count of each.
inline constexpr std::size_t kDropReasons = 64;
/// "context_cut_off", "too_large", "unlabelled_definition" or "excluded". REQUIRES: the reason is
/// one of these.
std::string_view DropReasonName(DropReason reason);

struct DroppedExample {
  ExampleId id;
  DropReason reason = DropReason::kTooLarge;
  friend bool operator==(const DroppedExample&, const DroppedExample&) = default;
};

/// The description of a batch in its header. It says nothing about the run: no lease, worker, rank
/// or world size.
struct BatchInfo {
  Fingerprint fingerprint;
  std::uint64_t epoch = 0;
  std::uint64_t first_example = 0;     // place in the order of the epoch
  std::uint32_t planned_examples = 0;  // examples in the range: graphs + dropped
  ExpandSpec expand;
  std::vector<ExampleId> example_ids;   // ids of the graphs, in row order
  std::vector<DroppedExample> dropped;  // in the order of the range
  friend bool operator==(const BatchInfo&, const BatchInfo&) = default;
};

/// A tensor's place in one batch's payload.
struct TensorPlace {
  TensorSpec spec;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  // from the begin of the payload
  std::uint64_t bytes = 0;   // without padding
};

}  // namespace millrace
