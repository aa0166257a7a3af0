#include "server/kinds/graph/format/graph_json.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/json_text.h"
#include "common/base/quoted.h"
#include "server/kinds/graph/format/json_reader.h"

namespace millrace {
namespace {

constexpr std::uint64_t kGraphVersion = 1;
// The whole, `arrays`, an array, its shape.
constexpr int kMaxGraphDepth = 4;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 62;

/// Refuses an object that has a key that is not in `known`, or lacks one that is in `needed`.
template <std::size_t kKnown, std::size_t kNeeded>
Status CheckKeys(const Json& object, const std::array<std::string_view, kKnown>& known,
                 const std::array<std::string_view, kNeeded>& needed) {
  if (!object.is_object()) return DataLoss("expected an object");
  for (const JsonMember& item : object.AsObject()) {
    if (std::find(known.begin(), known.end(), item.first) == known.end()) {
      return DataLoss(fmt::format("the key {} is unknown; expected {}", Quoted(item.first),
                                  fmt::join(known, ", ")));
    }
  }
  for (const std::string_view key : needed) {
    if (!object.contains(key)) return DataLoss(fmt::format("the key {} is missing", key));
  }
  return OkStatus();
}

Result<Digest128> ReadDigest(const Json& value, std::string_view key) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string_view text, JsonString(value, key));
  const Result<Digest128> digest = Digest128::FromHex(text);
  if (digest.ok()) return *digest;
  return DataLoss(fmt::format("{}: expected 32 lower-case hex digits, got {}", key, Quoted(text)));
}

Result<ArrayRecord> ReadArray(const Json& object) {
  constexpr std::array<std::string_view, 6> kKeys = {"path",   "dtype", "shape",
                                                     "offset", "bytes", "xxh3"};
  MILLRACE_RETURN_IF_ERROR(CheckKeys(object, kKeys, kKeys));
  ArrayRecord array;
  MILLRACE_ASSIGN_OR_RETURN(array.path, JsonString(object["path"], "path"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string_view dtype, JsonString(object["dtype"], "dtype"));
  const std::optional<DType> known = DTypeFromName(dtype);
  if (!known) {
    return DataLoss(
        fmt::format("dtype: {} is not supported; expected bool, (u)int8 to (u)int64, float16, "
                    "bfloat16, float32 "
                    "or float64",
                    Quoted(dtype)));
  }
  array.type.dtype = *known;
  MILLRACE_ASSIGN_OR_RETURN(array.type.shape,
                            JsonNumbers(object["shape"], "shape", kMaxArrayExtent));
  MILLRACE_ASSIGN_OR_RETURN(array.offset, JsonNumber(object["offset"], "offset", kMaxFileBytes));
  MILLRACE_ASSIGN_OR_RETURN(array.bytes, JsonNumber(object["bytes"], "bytes", kMaxFileBytes));
  MILLRACE_ASSIGN_OR_RETURN(array.xxh3, ReadDigest(object["xxh3"], "xxh3"));
  return array;
}

Result<std::optional<std::vector<std::string>>> ReadLabels(const Json& object,
                                                           std::string_view key) {
  std::optional<std::vector<std::string>> labels;
  if (!object.contains(key)) return labels;
  const Json& list = object[key];
  if (!list.is_array()) return DataLoss(fmt::format("{}: expected a list of texts", key));
  labels.emplace();
  for (const Json& one : list.AsArray()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string_view label, JsonString(one, key));
    labels->emplace_back(label);
  }
  return labels;
}

/// Checks the version before anything else, because a later version may have other keys.
Status CheckVersion(const Json& json) {
  if (!json.is_object()) return DataLoss("expected an object");
  if (!json.contains("millrace_graph")) return DataLoss("the key millrace_graph is missing");
  const Json& version = json["millrace_graph"];
  if (version.is_unsigned() && version.AsUnsigned() == kGraphVersion) return OkStatus();
  return DataLoss(
      fmt::format("millrace_graph: expected version {}, got {}", kGraphVersion,
                  version.is_number() ? version.ToText() : std::string(version.type_name())));
}

}  // namespace

Result<GraphDescription> ReadGraphJson(std::string_view text) {
  if (text.size() > kMaxGraphFileBytes) {
    return DataLoss(
        fmt::format("has {} bytes, expected at most {}", text.size(), kMaxGraphFileBytes));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Json json, ReadJson(text, kMaxGraphDepth));
  MILLRACE_RETURN_IF_ERROR(CheckVersion(json));
  constexpr std::array<std::string_view, 8> kKeys = {
      "millrace_graph", "nodes", "edges", "rows", "edge_labels", "node_labels", "digest", "arrays"};
  constexpr std::array<std::string_view, 5> kNeeded = {"nodes", "edges", "rows", "digest",
                                                       "arrays"};
  MILLRACE_RETURN_IF_ERROR(CheckKeys(json, kKeys, kNeeded));
  GraphDescription graph;
  MILLRACE_ASSIGN_OR_RETURN(graph.nodes, JsonNumber(json["nodes"], "nodes", kMaxArrayExtent - 1));
  MILLRACE_ASSIGN_OR_RETURN(graph.edges, JsonNumber(json["edges"], "edges", kMaxArrayExtent));
  MILLRACE_ASSIGN_OR_RETURN(const std::string_view rows, JsonString(json["rows"], "rows"));
  if (rows != "source" && rows != "target") {
    return DataLoss(fmt::format("rows: expected source or target, got {}", Quoted(rows)));
  }
  graph.rows = rows == "source" ? GraphRows::kSource : GraphRows::kTarget;
  MILLRACE_ASSIGN_OR_RETURN(graph.edge_labels, ReadLabels(json, "edge_labels"));
  MILLRACE_ASSIGN_OR_RETURN(graph.node_labels, ReadLabels(json, "node_labels"));
  if (!json["arrays"].is_object()) return DataLoss("arrays: expected an object");
  for (const JsonMember& item : json["arrays"].AsObject()) {
    Result<ArrayRecord> array = ReadArray(item.second);
    if (!array.ok()) return array.status().WithContext("array " + Quoted(item.first));
    graph.arrays.emplace(item.first, *std::move(array));
  }
  MILLRACE_RETURN_IF_ERROR(CheckDescription(graph));
  MILLRACE_ASSIGN_OR_RETURN(const Digest128 digest, ReadDigest(json["digest"], "digest"));
  if (digest != DigestOf(graph)) {
    return DataLoss(fmt::format("digest: expected {}, which its content has, got {}",
                                DigestOf(graph).ToHex(), digest.ToHex()));
  }
  return graph;
}

std::string WriteGraphJson(const GraphDescription& graph) {
  std::string text = fmt::format(
      "{{\n \"millrace_graph\": {},\n \"nodes\": {},\n \"edges\": {},\n \"rows\": {},\n",
      kGraphVersion, graph.nodes, graph.edges, JsonText(GraphRowsName(graph.rows)));
  if (graph.edge_labels) text += " \"edge_labels\": " + JsonList(*graph.edge_labels) + ",\n";
  if (graph.node_labels) text += " \"node_labels\": " + JsonList(*graph.node_labels) + ",\n";
  text += fmt::format(" \"digest\": \"{}\",\n \"arrays\": {{", DigestOf(graph).ToHex());
  std::string_view before = "\n";
  for (const auto& entry : graph.arrays) {
    const ArrayRecord& array = entry.second;
    text += fmt::format(
        "{}  {}: {{\"path\": {}, \"dtype\": \"{}\", \"shape\": {},\n   \"offset\": {}, \"bytes\": "
        "{}, \"xxh3\": \"{}\"}}",
        before, JsonText(entry.first), JsonText(array.path), DTypeName(array.type.dtype),
        ShapeText(array.type.shape), array.offset, array.bytes, array.xxh3.ToHex());
    before = ",\n";
  }
  return text + "\n }\n}\n";
}

}  // namespace millrace
