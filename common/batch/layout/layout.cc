#include "common/batch/layout/layout.h"

#include <limits>

namespace millrace {

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

std::string_view DTypeName(DType dtype) {
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
  return "unknown";
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

std::string_view TensorKindName(TensorKind kind) {
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
  return "unknown";
}

std::string_view ExpansionName(Expansion expansion) {
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
  return "unknown";
}

std::string_view SymmetrizationName(Symmetrization symmetrization) {
  switch (symmetrization) {
    case Symmetrization::kDirected:
      return "none";
    case Symmetrization::kUndirected:
      return "undirected";
    case Symmetrization::kBidirectional:
      return "bidirectional";
  }
  return "unknown";
}

std::string_view DropReasonName(DropReason reason) {
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
  return "unknown";
}

}  // namespace millrace
