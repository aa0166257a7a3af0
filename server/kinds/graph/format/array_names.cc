#include "server/kinds/graph/format/array_names.h"

#include <algorithm>
#include <vector>

namespace millrace {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigitOfName(char c) { return c >= '0' && c <= '9'; }

std::vector<std::string> Words(std::string_view name) {
  std::vector<std::string> words;
  while (true) {
    const std::size_t slash = name.find('/');
    words.emplace_back(name.substr(0, slash));
    if (slash == std::string_view::npos) return words;
    name.remove_prefix(slash + 1);
  }
}

}  // namespace

std::optional<ArrayName> ParseArrayName(std::string_view name) {
  if (name == "indptr") return ArrayName{ArrayRole::kIndptr, "", ""};
  if (name == "indices") return ArrayName{ArrayRole::kIndices, "", ""};
  if (name == "edge_label") return ArrayName{ArrayRole::kEdgeLabel, "", ""};
  if (name == "node_label") return ArrayName{ArrayRole::kNodeLabel, "", ""};
  const std::vector<std::string> words = Words(name);
  if (!std::all_of(words.begin(), words.end(), IsWord)) return std::nullopt;
  if (words.size() == 2) {
    if (words[0] == "node_feature") return ArrayName{ArrayRole::kNodeFeature, "", words[1]};
    if (words[0] == "edge_feature") return ArrayName{ArrayRole::kEdgeFeature, "", words[1]};
    if (words[0] == "roots") return ArrayName{ArrayRole::kRoots, words[1], ""};
    if (words[0] == "graphs") return ArrayName{ArrayRole::kGraphs, words[1], ""};
  }
  if (words.size() == 3 && words[0] == "targets") {
    return ArrayName{ArrayRole::kTargets, words[1], words[2]};
  }
  return std::nullopt;
}

bool IsWord(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  return !name.empty() && name.size() <= kLongest && IsLetter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLetter(c) || IsDigitOfName(c); });
}

}  // namespace millrace
