#include "common/batch/layout/tensor_table.h"

#include <limits>
#include <string>
#include <unordered_set>

#include <fmt/core.h>

namespace millrace {
namespace {

Status Broken(const TensorSpec& tensor, std::string_view rule) {
  return InvalidArgument(fmt::format("tensor {}: {}", tensor.path, rule));
}

constexpr std::string_view kNameRule = "1 to 255 printable ASCII characters without blanks";

bool IsName(std::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return !text.empty() && text.size() <= 255;
}

bool IsOneOf(Expansion expansion, std::initializer_list<Expansion> list) {
  for (const Expansion e : list) {
    if (e == expansion) return true;
  }
  return false;
}

/// The rules for dtype, row, bounds and what expansion does with the values.
Status CheckValues(const TensorSpec& tensor) {
  const bool keeps = tensor.expansion == Expansion::kKeep;
  std::uint64_t values = 1;
  if (tensor.inner.size() > kMaxInner) {
    return Broken(tensor, fmt::format("its rows have {} dimensions, not at most {}",
                                      tensor.inner.size(), kMaxInner));
  }
  for (const std::uint64_t extent : tensor.inner) {
    if (extent == 0 || extent > kMaxRowValues || (values *= extent) > kMaxRowValues) {
      return Broken(tensor, fmt::format("an extent of {} in its rows: expected at least 1, and at "
                                        "most {} values in a row",
                                        extent, kMaxRowValues));
    }
  }
  if (IsInteger(tensor.dtype)) {
    if (tensor.min < DTypeMin(tensor.dtype) || tensor.max > DTypeMax(tensor.dtype) ||
        (tensor.min >= 0 && static_cast<std::uint64_t>(tensor.min) > tensor.max)) {
      return Broken(tensor, fmt::format("bounds {} to {} are not a range of {}", tensor.min,
                                        tensor.max, DTypeName(tensor.dtype)));
    }
  } else if (!keeps) {
    return Broken(tensor, fmt::format("{} cannot expand as {}, only as keep",
                                      DTypeName(tensor.dtype), ExpansionName(tensor.expansion)));
  } else if (tensor.min != 0 || tensor.max != 0) {
    return Broken(tensor, fmt::format("bounds {} to {}, but {} has none", tensor.min, tensor.max,
                                      DTypeName(tensor.dtype)));
  }
  if (tensor.kind == TensorKind::kStringBytes && (tensor.dtype != DType::kUint8 || !keeps)) {
    return Broken(tensor, "string bytes are uint8 and expand as keep");
  }
  if (tensor.kind == TensorKind::kTableReference && !IsInteger(tensor.dtype)) {
    return Broken(tensor, "references to a table are integers");
  }
  const bool rows_of_one = tensor.kind == TensorKind::kSplits ||
                           !IsOneOf(tensor.expansion, {Expansion::kWiden, Expansion::kKeep});
  if (rows_of_one && !tensor.inner.empty()) {
    return Broken(tensor, "splits, node numbers and edges have rows of one value");
  }
  return OkStatus();
}

/// REQUIRES: tensor.splits and tensor.node_splits are either empty or paths in `tensors`.
Status CheckOne(std::span<const TensorSpec> tensors, const TensorSpec& tensor) {
  const auto is_splits = [&](std::string_view path) {
    const std::optional<std::size_t> found = FindTensor(tensors, path);
    return found.has_value() && tensors[*found].kind == TensorKind::kSplits;
  };
  if (!IsName(tensor.path)) {
    return InvalidArgument(fmt::format("a tensor's path is not {}", kNameRule));
  }
  if (!IsName(tensor.dimension)) {
    return Broken(tensor, fmt::format("its dimension is not {}", kNameRule));
  }
  MILLRACE_RETURN_IF_ERROR(CheckValues(tensor));
  if (!tensor.splits.empty() && !is_splits(tensor.splits)) {
    return Broken(tensor, fmt::format("splits {} is no tensor of kind splits", tensor.splits));
  }
  if (!tensor.node_splits.empty() && !is_splits(tensor.node_splits)) {
    return Broken(tensor,
                  fmt::format("node_splits {} is no tensor of kind splits", tensor.node_splits));
  }
  const bool needs_splits =
      tensor.kind == TensorKind::kRaggedValues || tensor.kind == TensorKind::kStringBytes ||
      IsOneOf(tensor.expansion,
              {Expansion::kEdgeSource, Expansion::kEdgeTarget, Expansion::kEdgeLabel});
  if (needs_splits && tensor.splits.empty()) return Broken(tensor, "names no splits");
  const bool numbers_nodes = IsOneOf(
      tensor.expansion, {Expansion::kNodeOffset, Expansion::kEdgeSource, Expansion::kEdgeTarget});
  if (numbers_nodes && tensor.node_splits.empty()) return Broken(tensor, "names no node_splits");
  if (!numbers_nodes && !tensor.node_splits.empty()) {
    return Broken(tensor, fmt::format("names node_splits, but expansion {} numbers no nodes",
                                      ExpansionName(tensor.expansion)));
  }
  if (tensor.kind == TensorKind::kSplits) {
    if (IsSigned(tensor.dtype)) return Broken(tensor, "splits have to be unsigned");
    if (!tensor.splits.empty()) return Broken(tensor, "splits cannot be cut themselves");
    if (!IsOneOf(tensor.expansion, {Expansion::kWiden, Expansion::kEdgeSplits})) {
      return Broken(tensor,
                    fmt::format("splits cannot expand as {}", ExpansionName(tensor.expansion)));
    }
  } else if (tensor.expansion == Expansion::kEdgeSplits) {
    return Broken(tensor, "expands as edge_splits but is not of kind splits");
  }
  return OkStatus();
}

bool CutsSomething(std::span<const TensorSpec> tensors, const TensorSpec& splits) {
  for (const TensorSpec& tensor : tensors) {
    if (tensor.splits == splits.path) return true;
  }
  return false;
}

/// The tensor of an edge group that has this expansion, or none.
Result<std::optional<std::size_t>> FindEdgeTensor(std::span<const TensorSpec> tensors,
                                                  const TensorSpec& splits, Expansion expansion) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].splits != splits.path || tensors[i].expansion != expansion) continue;
    if (found)
      return Broken(splits,
                    fmt::format("cuts two tensors that expand as {}", ExpansionName(expansion)));
    found = i;
  }
  return found;
}

Result<std::size_t> EdgeTensor(std::span<const TensorSpec> tensors, const TensorSpec& splits,
                               Expansion expansion) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::size_t> found,
                            FindEdgeTensor(tensors, splits, expansion));
  if (found) return *found;
  return Broken(splits, fmt::format("cuts no tensor that expands as {}", ExpansionName(expansion)));
}

Result<EdgeGroup> MakeEdgeGroup(std::span<const TensorSpec> tensors, std::size_t splits,
                                const ExpandSpec& expand) {
  EdgeGroup group;
  group.splits = splits;
  const TensorSpec& spec = tensors[splits];
  MILLRACE_ASSIGN_OR_RETURN(group.source, EdgeTensor(tensors, spec, Expansion::kEdgeSource));
  MILLRACE_ASSIGN_OR_RETURN(group.target, EdgeTensor(tensors, spec, Expansion::kEdgeTarget));
  MILLRACE_ASSIGN_OR_RETURN(group.label, FindEdgeTensor(tensors, spec, Expansion::kEdgeLabel));
  const TensorSpec& source = tensors[group.source];
  const TensorSpec& target = tensors[group.target];
  const TensorSpec* const label = group.label ? &tensors[*group.label] : nullptr;
  if (label == nullptr && expand.edge_labels() > 1) {
    return Broken(spec, fmt::format("cuts no tensor that expands as {}, but delivered edges have "
                                    "{} labels",
                                    ExpansionName(Expansion::kEdgeLabel), expand.edge_labels()));
  }
  if (source.dtype != target.dtype) {
    return Broken(target, fmt::format("is {}, but its edges' sources are {}",
                                      DTypeName(target.dtype), DTypeName(source.dtype)));
  }
  if (source.node_splits != target.node_splits) {
    return Broken(target, fmt::format("numbers nodes by {}, but its edges' sources by {}",
                                      target.node_splits, source.node_splits));
  }
  for (const TensorSpec* t : {&source, label}) {
    if (t == nullptr) continue;
    if (IsSigned(t->dtype) || t->dtype == DType::kUint64) {
      return Broken(*t, "edges are uint8, uint16 or uint32");
    }
  }
  group.node_splits = *FindTensor(tensors, source.node_splits);
  if (expand.merged && !spec.of_graphs()) {
    return Broken(spec, fmt::format("its dimension is {}, expected {} of a merged batch",
                                    spec.dimension, kGraphSplitsDimension));
  }
  if (expand.symmetrization != Symmetrization::kDirected || expand.add_self_edges) {
    for (const TensorSpec& t : tensors) {
      if (t.splits == spec.path && &t != &source && &t != &target && &t != label) {
        return Broken(t, "has no values for the edges that expansion adds");
      }
    }
  }
  return group;
}

}  // namespace

std::optional<std::size_t> FindTensor(std::span<const TensorSpec> tensors, std::string_view path) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].path == path) return i;
  }
  return std::nullopt;
}

Result<std::vector<EdgeGroup>> CheckTensors(std::span<const TensorSpec> tensors,
                                            const ExpandSpec& expand) {
  if (tensors.size() > kMaxTensors) {
    return InvalidArgument(
        fmt::format("a batch has at most {} tensors, not {}", kMaxTensors, tensors.size()));
  }
  if (expand.base_edge_labels > kMaxBaseEdgeLabels) {
    return InvalidArgument(fmt::format("a batch has at most {} base edge labels, not {}",
                                       kMaxBaseEdgeLabels, expand.base_edge_labels));
  }
  std::unordered_set<std::string_view> paths;
  for (const TensorSpec& tensor : tensors) {
    MILLRACE_RETURN_IF_ERROR(CheckOne(tensors, tensor));
    if (!paths.insert(tensor.path).second) return Broken(tensor, "is there twice");
  }
  std::vector<EdgeGroup> groups;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Expansion expansion = tensors[i].expansion;
    if (expand.merged && !tensors[i].node_splits.empty() &&
        !tensors[*FindTensor(tensors, tensors[i].node_splits)].of_graphs()) {
      return Broken(tensors[i], fmt::format("its node_splits {} are those of examples, expected "
                                            "those of graphs in a merged batch",
                                            tensors[i].node_splits));
    }
    if (IsOneOf(expansion,
                {Expansion::kEdgeSource, Expansion::kEdgeTarget, Expansion::kEdgeLabel})) {
      const TensorSpec& splits = tensors[*FindTensor(tensors, tensors[i].splits)];
      if (splits.expansion != Expansion::kEdgeSplits) {
        return Broken(tensors[i],
                      fmt::format("its splits {} do not expand as edge_splits", splits.path));
      }
    }
    if (tensors[i].kind == TensorKind::kSplits && !CutsSomething(tensors, tensors[i])) {
      return Broken(tensors[i], "cuts no tensor");
    }
    if (expansion != Expansion::kEdgeSplits) continue;
    MILLRACE_ASSIGN_OR_RETURN(EdgeGroup group, MakeEdgeGroup(tensors, i, expand));
    groups.push_back(group);
  }
  if (!groups.empty() && expand.base_edge_labels == 0) {
    return InvalidArgument("batches with edges need at least one base edge label");
  }
  return groups;
}

}  // namespace millrace
