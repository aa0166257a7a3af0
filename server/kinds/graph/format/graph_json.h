// Reads and writes the text of graph.json.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "server/kinds/graph/format/graph_description.h"

namespace millrace {

inline constexpr std::string_view kGraphFileName = "graph.json";
/// A larger file is refused unread.
inline constexpr std::uint64_t kMaxGraphFileBytes = std::uint64_t{64} << 20;

/// Reads the text of graph.json and checks it (CheckDescription). Also checks that its `digest`
/// fits its content. DataLoss with the error and its place; the caller adds the file's name.
/// Unknown keys are refused by name; keys of later versions are refused as not yet supported.
Result<GraphDescription> ReadGraphJson(std::string_view text);

/// The text of graph.json, with its digest. REQUIRES: CheckDescription(graph) is ok.
std::string WriteGraphJson(const GraphDescription& graph);

}  // namespace millrace
