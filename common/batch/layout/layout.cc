#include "common/batch/layout/layout.h"

namespace millrace {
namespace {

// The names of enumerators, as text formats and messages write them. The switches have no default,
// so that an enumerator without a name does not compile.

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
    case Expansion::kKeep:
      return "keep";
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
    case DropReason::kTooLarge:
      return "too_large";
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

constexpr std::array kTensorKinds = {TensorKind::kDense, TensorKind::kRaggedValues,
                                     TensorKind::kSplits, TensorKind::kStringBytes,
                                     TensorKind::kTableReference};
constexpr std::array kExpansions = {
    Expansion::kWiden,     Expansion::kNodeOffset, Expansion::kEdgeSource, Expansion::kEdgeTarget,
    Expansion::kEdgeLabel, Expansion::kEdgeSplits, Expansion::kKeep};
constexpr std::array kSymmetrizations = {Symmetrization::kDirected, Symmetrization::kUndirected,
                                         Symmetrization::kBidirectional};
static_assert(IsComplete(kTensorKinds));
static_assert(IsComplete(kExpansions));
static_assert(IsComplete(kSymmetrizations));

std::string_view OrUnknown(std::string_view name) { return name.empty() ? "unknown" : name; }

}  // namespace

std::string_view TensorKindName(TensorKind kind) { return OrUnknown(NameOf(kind)); }
std::string_view ExpansionName(Expansion expansion) { return OrUnknown(NameOf(expansion)); }
std::string_view SymmetrizationName(Symmetrization symmetrization) {
  return OrUnknown(NameOf(symmetrization));
}
std::string_view DropReasonName(DropReason reason) { return OrUnknown(NameOf(reason)); }

std::optional<TensorKind> TensorKindFromName(std::string_view name) {
  return Named(name, kTensorKinds);
}
std::optional<Expansion> ExpansionFromName(std::string_view name) {
  return Named(name, kExpansions);
}
std::optional<Symmetrization> SymmetrizationFromName(std::string_view name) {
  return Named(name, kSymmetrizations);
}

}  // namespace millrace
