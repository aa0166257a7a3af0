#include "common/batch/layout/layout.h"

#include <limits>

namespace millrace {
namespace {

// The names of enumerators, as text formats and messages write them. The switches have no default,
// so that an enumerator without a name does not compile.

constexpr std::string_view NameOf(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return "uint8";
    case DType::kUint16:
      return "uint16";
    case DType::kUint32:
      return "uint32";
    case DType::kUint64:
      return "uint64";
    case DType::kInt8:
      return "int8";
    case DType::kInt16:
      return "int16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
  }
  return {};
}

constexpr std::string_view NameOf(TensorKind kind) {
  switch (kind) {
    case TensorKind::kDense:
      return "dense";
    case TensorKind::kRaggedValues:
      return "ragged_values";
    case TensorKind::kSplits:
      return "splits";
    case TensorKind::kStringBytes:
      return "string_bytes";
    case TensorKind::kTableReference:
      return "table_reference";
  }
  return {};
}

constexpr std::string_view NameOf(Expansion expansion) {
  switch (expansion) {
    case Expansion::kWiden:
      return "widen";
    case Expansion::kNodeOffset:
      return "node_offset";
    case Expansion::kEdgeSource:
      return "edge_source";
    case Expansion::kEdgeTarget:
      return "edge_target";
    case Expansion::kEdgeLabel:
      return "edge_label";
    case Expansion::kEdgeSplits:
      return "edge_splits";
  }
  return {};
}

constexpr std::string_view NameOf(Symmetrization symmetrization) {
  switch (symmetrization) {
    case Symmetrization::kDirected:
      return "none";
    case Symmetrization::kUndirected:
      return "undirected";
    case Symmetrization::kBidirectional:
      return "bidirectional";
  }
  return {};
}

constexpr std::string_view NameOf(DropReason reason) {
  switch (reason) {
    case DropReason::kContextCutOff:
      return "context_cut_off";
    case DropReason::kTooLarge:
      return "too_large";
    case DropReason::kUnlabelledDefinition:
      return "unlabelled_definition";
    case DropReason::kExcluded:
      return "excluded";
  }
  return {};
}

/// Whether `all` holds every value of an enumeration, in the order of their numbers. It does if
/// each entry has a name, and the number after the last entry has none.
template <class Enum, std::size_t n>
constexpr bool IsComplete(const std::array<Enum, n>& all) {
  const auto first = static_cast<std::size_t>(all[0]);
  for (std::size_t i = 0; i < n; ++i) {
    if (static_cast<std::size_t>(all[i]) != first + i || NameOf(all[i]).empty()) return false;
  }
  return NameOf(static_cast<Enum>(first + n)).empty();
}

template <class Enum, std::size_t n>
std::optional<Enum> Named(std::string_view name, const std::array<Enum, n>& all) {
  for (const Enum value : all) {
    if (NameOf(value) == name) return value;
  }
  return std::nullopt;
}

constexpr std::array kDTypes = {DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64,
                                DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64};
constexpr std::array kTensorKinds = {TensorKind::kDense, TensorKind::kRaggedValues,
                                     TensorKind::kSplits, TensorKind::kStringBytes,
                                     TensorKind::kTableReference};
constexpr std::array kSymmetrizations = {Symmetrization::kDirected, Symmetrization::kUndirected,
                                         Symmetrization::kBidirectional};
static_assert(IsComplete(kDTypes));
static_assert(IsComplete(kTensorKinds));
static_assert(IsComplete(kSymmetrizations));
static_assert(IsComplete(kNamedDropReasons) && kNamedDropReasons[0] == DropReason{1});
static_assert(kNamedDropReasons.size() < kDropReasons);

std::string_view OrUnknown(std::string_view name) { return name.empty() ? "unknown" : name; }

}  // namespace

std::uint32_t DTypeSize(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
      return 1;
    case DType::kUint16:
    case DType::kInt16:
      return 2;
    case DType::kUint32:
    case DType::kInt32:
      return 4;
    case DType::kUint64:
    case DType::kInt64:
      return 8;
  }
  return 0;
}

DType NarrowestDType(std::int64_t min, std::uint64_t max) {
  const auto holds = [&](auto lowest, auto highest) {
    return min >= static_cast<std::int64_t>(lowest) && max <= static_cast<std::uint64_t>(highest);
  };
  if (min >= 0) {
    if (holds(0, std::numeric_limits<std::uint8_t>::max())) return DType::kUint8;
    if (holds(0, std::numeric_limits<std::uint16_t>::max())) return DType::kUint16;
    if (holds(0, std::numeric_limits<std::uint32_t>::max())) return DType::kUint32;
    return DType::kUint64;
  }
  using std::numeric_limits;
  if (holds(numeric_limits<std::int8_t>::min(), numeric_limits<std::int8_t>::max())) {
    return DType::kInt8;
  }
  if (holds(numeric_limits<std::int16_t>::min(), numeric_limits<std::int16_t>::max())) {
    return DType::kInt16;
  }
  if (holds(numeric_limits<std::int32_t>::min(), numeric_limits<std::int32_t>::max())) {
    return DType::kInt32;
  }
  return DType::kInt64;
}

std::string_view DTypeName(DType dtype) { return OrUnknown(NameOf(dtype)); }
std::string_view TensorKindName(TensorKind kind) { return OrUnknown(NameOf(kind)); }
std::string_view ExpansionName(Expansion expansion) { return OrUnknown(NameOf(expansion)); }
std::string_view SymmetrizationName(Symmetrization symmetrization) {
  return OrUnknown(NameOf(symmetrization));
}
std::string_view DropReasonName(DropReason reason) { return OrUnknown(NameOf(reason)); }

std::optional<DType> DTypeFromName(std::string_view name) { return Named(name, kDTypes); }
std::optional<TensorKind> TensorKindFromName(std::string_view name) {
  return Named(name, kTensorKinds);
}
std::optional<Symmetrization> SymmetrizationFromName(std::string_view name) {
  return Named(name, kSymmetrizations);
}

}  // namespace millrace
