#include "server/plan/order/cut_tensors.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/tensor/tensor_word.h"

namespace millrace {

std::string WhyNotCut(const Source& source, const TensorSpec& tensor) {
  if (tensor.splits.empty()) {
    return fmt::format("{} is not ragged, so it has no elements that could be cut", tensor.path);
  }
  if (tensor.dimension == "nodes" || tensor.dimension == "edges") {
    return fmt::format("{} has a row for each of the {} of a graph, and a graph is not cut",
                       tensor.path, tensor.dimension);
  }
  const std::vector<std::string>& counted = source.facts().counted_tensors;
  for (const TensorSpec& other : source.tensors()) {
    if (other.path == TextLengthsOf(tensor.path)) {
      return fmt::format("{} is a list of texts, and {} says where each of them ends", tensor.path,
                         other.path);
    }
    if (tensor.path == TextLengthsOf(other.path)) {
      return fmt::format("{} says where the texts of {} end", tensor.path, other.path);
    }
    if (other.node_splits == tensor.splits) {
      return fmt::format("{} has numbers of the rows of {}", other.path, tensor.path);
    }
    if (other.splits == tensor.splits &&
        std::find(counted.begin(), counted.end(), other.path) != counted.end()) {
      return fmt::format("other tensors have places in {} as their values", other.path);
    }
  }
  return {};
}

std::string TensorsToCut(const Source& source) {
  std::vector<std::string> names;
  for (const TensorSpec& tensor : source.tensors()) {
    if (tensor.kind == TensorKind::kSplits || !WhyNotCut(source, tensor).empty()) continue;
    names.push_back(DottedName(tensor.path));
  }
  if (names.empty()) return "no tensor of this source can be cut";
  return fmt::format("expected one of {}", fmt::join(names, ", "));
}

std::optional<std::size_t> FindByDottedName(const Source& source, std::string_view name) {
  const std::vector<TensorSpec>& tensors = source.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].kind != TensorKind::kSplits && DottedName(tensors[i].path) == name) return i;
  }
  return std::nullopt;
}

}  // namespace millrace
