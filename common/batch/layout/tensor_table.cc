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

/// REQUIRES: tensor.splits and tensor.node_splits are either empty or paths in `tensors`.
Status CheckOne(std::span<const TensorSpec> tensors, const TensorSpec& tensor) {
  const auto is_splits = [&](std::string_view path) {
    const std::optional<std::size_t> found = FindTensor(tensors, path);
    return found.has_value() && tensors[*found].kind == TensorKind::kSplits;
  };
  if (!IsName(tensor.path)) {
    return InvalidArgument(fmt::format("a tensor's path is not {}", kNameRule));
  }
  if (tensor.dimensions.empty() || tensor.dimensions.size() > kMaxDimensions) {
    return Broken(tensor, fmt::format("has {} dimensions, not 1 to {}", tensor.dimensions.size(),
                                      kMaxDimensions));
  }
  for (const std::string& dimension : tensor.dimensions) {
    if (!IsName(dimension)) return Broken(tensor, fmt::format("a dimension is not {}", kNameRule));
  }
  if (tensor.min < DTypeMin(tensor.dtype) || tensor.max > DTypeMax(tensor.dtype) ||
      (tensor.min >= 0 && static_cast<std::uint64_t>(tensor.min) > tensor.max)) {
    return Broken(tensor, fmt::format("bounds {} to {} are not a range of {}", tensor.min,
                                      tensor.max, DTypeName(tensor.dtype)));
  }
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
    if (tensor.dimensions.size() != 1) return Broken(tensor, "splits have one dimension");
    if (!IsOneOf(tensor.expansion, {Expansion::kWiden, Expansion::kEdgeSplits})) {
      return Broken(tensor,
                    fmt::format("splits cannot expand as {}", ExpansionName(tensor.expansion)));
    }
  } else if (tensor.expansion == Expansion::kEdgeSplits) {
    return Broken(tensor, "expands as edge_splits but is not of kind splits");
  }
  if (tensor.kind == TensorKind::kStringBytes &&
      (tensor.dtype != DType::kUint8 || tensor.expansion != Expansion::kWiden)) {
    return Broken(tensor, "string bytes are uint8 and only widen");
  }
  if (tensor.expansion != Expansion::kWiden && tensor.dimensions.size() != 1) {
    return Broken(tensor, "node numbers and edges have one dimension");
  }
  return OkStatus();
}

bool CutsSomething(std::span<const TensorSpec> tensors, const TensorSpec& splits) {
  for (const TensorSpec& tensor : tensors) {
    if (tensor.splits == splits.path) return true;
  }
  return false;
}

/// The one tensor of an edge group that has this expansion.
Result<std::size_t> EdgeTensor(std::span<const TensorSpec> tensors, const TensorSpec& splits,
                               Expansion expansion) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].splits != splits.path || tensors[i].expansion != expansion) continue;
    if (found)
      return Broken(splits,
                    fmt::format("cuts two tensors that expand as {}", ExpansionName(expansion)));
    found = i;
  }
  if (!found) {
    return Broken(splits,
                  fmt::format("cuts no tensor that expands as {}", ExpansionName(expansion)));
  }
  return *found;
}

Result<EdgeGroup> MakeEdgeGroup(std::span<const TensorSpec> tensors, std::size_t splits,
                                const ExpandSpec& expand) {
  EdgeGroup group;
  group.splits = splits;
  const TensorSpec& spec = tensors[splits];
  MILLRACE_ASSIGN_OR_RETURN(group.source, EdgeTensor(tensors, spec, Expansion::kEdgeSource));
  MILLRACE_ASSIGN_OR_RETURN(group.target, EdgeTensor(tensors, spec, Expansion::kEdgeTarget));
  MILLRACE_ASSIGN_OR_RETURN(group.label, EdgeTensor(tensors, spec, Expansion::kEdgeLabel));
  const TensorSpec& source = tensors[group.source];
  const TensorSpec& target = tensors[group.target];
  const TensorSpec& label = tensors[group.label];
  if (source.dtype != target.dtype) {
    return Broken(target, fmt::format("is {}, but its edges' sources are {}",
                                      DTypeName(target.dtype), DTypeName(source.dtype)));
  }
  if (source.node_splits != target.node_splits) {
    return Broken(target, fmt::format("numbers nodes by {}, but its edges' sources by {}",
                                      target.node_splits, source.node_splits));
  }
  for (const TensorSpec* t : {&source, &label}) {
    if (IsSigned(t->dtype) || t->dtype == DType::kUint64) {
      return Broken(*t, "edges are uint8, uint16 or uint32");
    }
  }
  group.node_splits = *FindTensor(tensors, source.node_splits);
  if (expand.symmetrization != Symmetrization::kDirected || expand.add_self_edges) {
    for (const TensorSpec& t : tensors) {
      if (t.splits == spec.path && &t != &source && &t != &target && &t != &label) {
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

bool IsSigned(DType dtype) { return dtype >= DType::kInt8; }

std::int64_t DTypeMin(DType dtype) {
  if (!IsSigned(dtype)) return 0;
  return std::numeric_limits<std::int64_t>::min() >> (64 - 8 * DTypeSize(dtype));
}

std::uint64_t DTypeMax(DType dtype) {
  const std::uint64_t all =
      std::numeric_limits<std::uint64_t>::max() >> (64 - 8 * DTypeSize(dtype));
  return IsSigned(dtype) ? all >> 1 : all;
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
