#include "server/kinds/graph/graph_names.h"

#include <array>
#include <map>
#include <span>
#include <string>

#include "common/base/hash.h"
#include "server/kinds/graph/format/graph_description.h"

namespace millrace {

GraphNames::GraphNames(const GraphTables& tables) : by_row_(tables.arrays().any_by_row()) {
  const GraphDescription& all = tables.dataset().description();
  GraphDescription read = all;
  read.arrays.clear();
  const auto add = [&](const std::string& name) {
    if (const ArrayRecord* const array = all.Find(name)) read.arrays[name] = *array;
  };
  for (const char* const name : {"indptr", "indices", "edge_label", "node_label"}) add(name);
  for (const std::string& name : tables.arrays().names()) add(name);
  arrays_ = DigestOf(read);
}

Digest128 GraphNames::Of(const GraphRange& nodes, std::uint64_t row) const {
  const std::array<std::uint64_t, 5> words = {arrays_.high, arrays_.low, nodes.begin, nodes.end,
                                              by_row_ ? row : 0};
  return Xxh3(std::as_bytes(std::span(words)));
}

}  // namespace millrace
