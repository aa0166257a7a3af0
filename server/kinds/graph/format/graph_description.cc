#include "server/kinds/graph/format/graph_description.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/base/json_text.h"
#include "common/base/quoted.h"

namespace millrace {
namespace {

bool IsNodeNumberType(DType dtype) { return IsInteger(dtype) && DTypeSize(dtype) >= 4; }

/// Checks type and shape of one array against its name.
class ArrayCheck {
 public:
  ArrayCheck(const GraphDescription& graph, const ArrayName& name, const ArrayType& type)
      : graph_(graph), name_(name), type_(type) {}

  Status Run() const {
    switch (name_.role) {
      case ArrayRole::kIndptr:
        return Numbers("(u)int32 or (u)int64", graph_.nodes + 1, IsNodeNumberType(type_.dtype));
      case ArrayRole::kIndices:
        return Numbers("(u)int32 or (u)int64", graph_.edges, IsNodeNumberType(type_.dtype));
      case ArrayRole::kEdgeLabel:
        return Numbers("an integer", graph_.edges, IsInteger(type_.dtype));
      case ArrayRole::kNodeLabel:
        return Numbers("an integer", graph_.nodes, IsInteger(type_.dtype));
      case ArrayRole::kNodeFeature:
        return Rows(graph_.nodes);
      case ArrayRole::kEdgeFeature:
        return Rows(graph_.edges);
      case ArrayRole::kRoots:
        return Numbers("(u)int32 or (u)int64", std::nullopt, IsNodeNumberType(type_.dtype));
      case ArrayRole::kGraphs:
        MILLRACE_RETURN_IF_ERROR(
            Numbers("(u)int32 or (u)int64", std::nullopt, IsNodeNumberType(type_.dtype)));
        if (type_.shape[0] > 0) return OkStatus();
        return DataLoss("is empty, expected one number more than there are graphs");
      case ArrayRole::kTargets: {
        const auto rows = RowsOfList(graph_, name_.list);
        if (rows) return Rows(*rows);
        return DataLoss(fmt::format("there is neither roots/{0} nor graphs/{0}", name_.list));
      }
    }
    return OkStatus();
  }

 private:
  Status Numbers(std::string_view expected, std::optional<std::uint64_t> length,
                 bool right_dtype) const {
    if (!right_dtype) {
      return DataLoss(fmt::format("has dtype {}, expected {}", DTypeName(type_.dtype), expected));
    }
    if (type_.shape.size() != 1) {
      return DataLoss(fmt::format("has shape {}, expected one dimension", ShapeText(type_.shape)));
    }
    return length ? Rows(*length) : OkStatus();
  }
  Status Rows(std::uint64_t expected) const {
    if (type_.shape[0] == expected) return OkStatus();
    return DataLoss(fmt::format("has shape {}, expected a first extent of {} ({} nodes, {} edges)",
                                ShapeText(type_.shape), expected, graph_.nodes, graph_.edges));
  }

  const GraphDescription& graph_;
  const ArrayName& name_;
  const ArrayType& type_;
};

Status CheckPath(std::string_view path) {
  if (path.empty()) return DataLoss("path: is empty");
  if (path.find('\0') != std::string_view::npos) return DataLoss("path: has a zero byte");
  if (path.front() == '/') return OkStatus();
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::string_view component = rest.substr(0, rest.find('/'));
    if (component == "..") {
      return DataLoss(
          fmt::format("path: {} leads out of the folder; a file elsewhere needs an absolute path",
                      Quoted(path)));
    }
    rest.remove_prefix(std::min(rest.size(), component.size() + 1));
  }
  return OkStatus();
}

Status CheckPlace(const ArrayRecord& array) {
  MILLRACE_RETURN_IF_ERROR(CheckPath(array.path));
  if (const Status shape = CheckShape(array.type); !shape.ok()) return DataLoss(shape.message());
  const std::uint64_t values = *array.type.Bytes();
  if (array.offset > array.bytes || values > array.bytes - array.offset) {
    return DataLoss(fmt::format("{} from byte {} on does not lie in a file of {} bytes",
                                array.type.ToString(), array.offset, array.bytes));
  }
  return OkStatus();
}

Status CheckLabels(const std::optional<std::vector<std::string>>& labels, std::size_t most,
                   std::string_view key) {
  if (!labels) return OkStatus();
  if (labels->empty() || labels->size() > most) {
    return DataLoss(fmt::format("{}: expected 1 to {} names, got {}", key, most, labels->size()));
  }
  std::set<std::string_view> seen;
  for (const std::string& label : *labels) {
    if (!seen.insert(label).second) {
      return DataLoss(fmt::format("{}: {} is there twice", key, Quoted(label)));
    }
  }
  return OkStatus();
}

}  // namespace

std::string_view GraphRowsName(GraphRows rows) {
  return rows == GraphRows::kSource ? "source" : "target";
}

const ArrayRecord* GraphDescription::Find(std::string_view name) const {
  const auto found = arrays.find(std::string(name));
  return found == arrays.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> RowsOfList(const GraphDescription& graph, const std::string& list) {
  const auto extent = [](const ArrayRecord* array) -> std::optional<std::uint64_t> {
    if (array == nullptr || array->type.shape.empty()) return std::nullopt;
    return array->type.shape[0];
  };
  if (const auto roots = extent(graph.Find("roots/" + list))) return roots;
  if (const auto bounds = extent(graph.Find("graphs/" + list))) return *bounds - (*bounds > 0);
  if (list == "all") return graph.nodes;
  return std::nullopt;
}

Status CheckDescription(const GraphDescription& graph) {
  for (const std::string_view needed : {"indptr", "indices"}) {
    if (graph.Find(needed) == nullptr) return DataLoss(fmt::format("has no array {}", needed));
  }
  MILLRACE_RETURN_IF_ERROR(CheckLabels(graph.edge_labels, kMaxEdgeLabels, "edge_labels"));
  MILLRACE_RETURN_IF_ERROR(CheckLabels(graph.node_labels, kMaxLabelNames, "node_labels"));
  std::map<std::string_view, const ArrayRecord*> files;
  for (const auto& entry : graph.arrays) {
    const std::string where = "array " + entry.first;
    const ArrayRecord& array = entry.second;
    const std::optional<ArrayName> name = ParseArrayName(entry.first);
    if (!name) {
      return DataLoss(
          fmt::format("array {}: unknown; expected {}", Quoted(entry.first), kArrayNames));
    }
    MILLRACE_RETURN_IF_ERROR(CheckPlace(array).WithContext(where));
    MILLRACE_RETURN_IF_ERROR(ArrayCheck(graph, *name, array.type).Run().WithContext(where));
    const ArrayRecord& first = *files.try_emplace(array.path, &array).first->second;
    if (first.bytes != array.bytes || first.xxh3 != array.xxh3) {
      return DataLoss(fmt::format("{}: another array of {} gives its bytes or its xxh3 otherwise",
                                  where, Quoted(array.path)));
    }
  }
  return OkStatus();
}

std::string DigestLines(const GraphDescription& graph) {
  std::set<std::string> lines;
  for (const auto& entry : graph.arrays) {
    const ArrayRecord& array = entry.second;
    lines.insert(fmt::format("array {}={} {} {} {}", entry.first, DTypeName(array.type.dtype),
                             ShapeText(array.type.shape), array.offset, array.xxh3.ToHex()));
  }
  lines.insert(fmt::format("nodes={}", graph.nodes));
  lines.insert(fmt::format("edges={}", graph.edges));
  lines.insert(fmt::format("rows={}", JsonText(GraphRowsName(graph.rows))));
  if (graph.edge_labels) lines.insert("edge_labels=" + JsonList(*graph.edge_labels));
  if (graph.node_labels) lines.insert("node_labels=" + JsonList(*graph.node_labels));
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

Digest128 DigestOf(const GraphDescription& graph) { return Xxh3(DigestLines(graph)); }

}  // namespace millrace
