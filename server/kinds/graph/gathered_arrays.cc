#include "server/kinds/graph/gathered_arrays.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/base/dtype.h"
#include "common/base/quoted.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {
namespace {

/// The names of arrays that begin with `prefix`, without it.
std::string Known(const GraphDataset& dataset, std::string_view prefix) {
  std::string known;
  for (const auto& entry : dataset.description().arrays) {
    if (!entry.first.starts_with(prefix)) continue;
    known += (known.empty() ? "" : ", ") + entry.first.substr(prefix.size());
  }
  return known.empty() ? "none" : known;
}

/// InvalidArgument if rows of an array cannot stand in a batch.
Status CheckRow(std::string_view key, const GraphArray& array, const TensorSpec& spec) {
  static_assert(kMaxArrayDimensions - 1 <= kMaxInner);
  std::uint64_t values = 1;
  for (const std::uint64_t extent : spec.inner) {
    if (extent == 0) {
      return InvalidArgument(fmt::format("{}: {} has rows without values: its type is {}", key,
                                         array.Where(), array.type.ToString()));
    }
    if (extent > kMaxRowValues || (values *= extent) > kMaxRowValues) {
      return InvalidArgument(
          fmt::format("{}: {} has too large rows: its type is {}, and a row of a "
                      "batch has at most {} values",
                      key, array.Where(), array.type.ToString(), kMaxRowValues));
    }
  }
  return OkStatus();
}

}  // namespace

const GraphArray* FindTarget(const GraphDataset& dataset, const ExampleList& list,
                             std::string_view target) {
  const bool of_roots = dataset.Find("roots/" + list.name) != nullptr;
  const bool of_graphs = !of_roots && dataset.Find("graphs/" + list.name) != nullptr;
  if (list.roots ? of_graphs : of_roots) return nullptr;
  return dataset.Find(fmt::format("targets/{}/{}", list.name, target));
}

Result<GatheredArrays> GatheredArrays::Make(const GraphDataset& dataset,
                                            const GraphArraysPart& part, const ExampleList& list,
                                            bool added_edges, std::vector<TensorSpec>& tensors) {
  GatheredArrays all(dataset);
  const auto add = [&tensors](std::string_view key, const GraphArray& array, TensorSpec spec,
                              std::vector<Gathered>& to) {
    spec.dtype = array.type.dtype;
    spec.inner.assign(array.type.shape.begin() + 1, array.type.shape.end());
    spec.expansion = Expansion::kKeep;
    if (IsInteger(spec.dtype)) {
      spec.min = DTypeMin(spec.dtype);
      spec.max = DTypeMax(spec.dtype);
    }
    MILLRACE_RETURN_IF_ERROR(CheckRow(key, array, spec));
    to.push_back({tensors.size(), &array, spec.row_bytes(), spec.dtype == DType::kBool});
    tensors.push_back(std::move(spec));
    return OkStatus();
  };
  const std::string own = "targets/" + list.name + "/";
  const std::string of_nodes = kNodeFeatures;
  const std::string of_edges = "edge_feature/";
  for (const std::string& name : part.targets) {
    const GraphArray* array = FindTarget(dataset, list, name);
    const bool of_list = array != nullptr;
    if (!of_list && list.roots) array = dataset.Find(of_nodes + name);
    if (array == nullptr) {
      return InvalidArgument(
          fmt::format("targets: the dataset has no array {}{}{}; it has {}{}", own, Quoted(name),
                      list.roots ? " and no array " + of_nodes + Quoted(name) : "",
                      Known(dataset, own), list.roots ? " and " + Known(dataset, of_nodes) : ""));
    }
    TensorSpec spec;
    spec.path = "target/" + name;
    spec.kind = TensorKind::kDense;
    spec.dimension = "batch";
    MILLRACE_RETURN_IF_ERROR(add("targets", *array, std::move(spec), all.targets_));
    all.targets_.back().of_root = !of_list;
  }
  const auto add_ragged = [&](std::string_view key, const std::vector<std::string>& names,
                              const std::string& prefix, const char* dimension, const char* splits,
                              std::vector<Gathered>& to) {
    for (const std::string& name : names) {
      const GraphArray* const array = dataset.Find(prefix + name);
      if (array == nullptr) {
        return InvalidArgument(fmt::format("{}: the dataset has no array {}{}; it has {}", key,
                                           prefix, Quoted(name), Known(dataset, prefix)));
      }
      TensorSpec spec;
      spec.path = prefix + name;
      spec.kind = TensorKind::kRaggedValues;
      spec.dimension = dimension;
      spec.splits = splits;
      MILLRACE_RETURN_IF_ERROR(add(key, *array, std::move(spec), to));
    }
    return OkStatus();
  };
  if (!part.edge_features.empty() && added_edges) {
    return InvalidArgument(fmt::format(
        "edge_features: edges that are added to a batch have none; write {}", kNoAddedEdges));
  }
  MILLRACE_RETURN_IF_ERROR(
      add_ragged("features", part.features, of_nodes, "nodes", "node_splits", all.nodes_));
  for (const Gathered& gathered : all.nodes_) all.late_.push_back(gathered.tensor);
  MILLRACE_RETURN_IF_ERROR(add_ragged("edge_features", part.edge_features, of_edges, "edges",
                                      "edge_splits", all.edges_));
  return all;
}

Status GatheredArrays::Write(std::size_t tensor, const BatchWriter& writer,
                             std::span<std::byte> out, const Filled& filled) const {
  const auto from = std::find_if(nodes_.begin(), nodes_.end(), [&](const Gathered& gathered) {
    return gathered.tensor == tensor;
  });
  const std::span<const std::byte> nodes = writer.values(node_);
  const auto copy = [&](auto zero) {
    using Node = decltype(zero);
    const auto row_at = [&](std::uint32_t i) {
      return std::uint64_t{LoadOnce<Node>(nodes.data() + i * sizeof(Node))};
    };
    const auto count = static_cast<std::uint32_t>(nodes.size() / sizeof(Node));
    const auto at_once = static_cast<std::uint32_t>(kFilledAtOnce / from->row_bytes + 1);
    for (std::uint32_t begin = 0; begin < count;) {
      const std::uint32_t end = begin + std::min(at_once, count - begin);
      MILLRACE_RETURN_IF_ERROR(CopyRows(*from, begin, end, count, row_at, out.data()));
      filled(end * from->row_bytes);
      begin = end;
    }
    return OkStatus();
  };
  switch (writer.value_bytes(node_)) {
    case 1:
      return copy(std::uint8_t{0});
    case 2:
      return copy(std::uint16_t{0});
    case 4:
      return copy(std::uint32_t{0});
    default:
      return copy(std::uint64_t{0});
  }
}

bool GatheredArrays::any_by_row() const {
  return std::any_of(targets_.begin(), targets_.end(),
                     [](const Gathered& target) { return !target.of_root; });
}

std::vector<std::string> GatheredArrays::names() const {
  std::vector<std::string> names;
  for (const std::vector<Gathered>* const some : {&nodes_, &edges_, &targets_}) {
    for (const Gathered& gathered : *some) names.push_back(gathered.array->name);
  }
  return names;
}

Status GatheredArrays::AppendTargets(std::uint64_t example, std::uint64_t root,
                                     BatchWriter& writer) const {
  for (const Gathered& target : targets_) {
    const std::uint64_t row = target.of_root ? root : example;
    MILLRACE_RETURN_IF_ERROR(AppendRows(
        target, 1, [row](std::uint32_t) { return row; }, writer));
  }
  return OkStatus();
}

Status GatheredArrays::CheckBools(const Gathered& from, std::uint64_t row,
                                  const std::byte* values) const {
  for (std::uint64_t i = 0; i < from.row_bytes; ++i) {
    const auto value = std::to_integer<unsigned>(values[i]);
    if (value <= 1) continue;
    return dataset_->BadNumber(*from.array, row * from.row_bytes + i,
                               fmt::format("is {}, expected 0 or 1 of a bool", value));
  }
  return OkStatus();
}

}  // namespace millrace
