#include "common/expand/delivered_order.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>

#include "common/batch/layout/tensor_table.h"

namespace millrace::internal {
namespace {

/// The name by which a tensor is sorted: splits go by that of the tensor that they cut.
std::string_view SortName(std::span<const TensorSpec> tensors, const TensorSpec& tensor) {
  if (tensor.kind != TensorKind::kSplits) return tensor.path;
  const auto cut = std::find_if(tensors.begin(), tensors.end(), [&](const TensorSpec& other) {
    return other.splits == tensor.path;
  });
  return cut == tensors.end() ? tensor.path : cut->path;
}

}  // namespace

std::vector<DeliveredPlace> DeliveredOrder(const DeliveredTensors& tensors) {
  using Kind = DeliveredPlace::Kind;
  std::vector<DeliveredPlace> order;
  std::vector<bool> placed(tensors.computed.size(), false);
  for (std::size_t i = 0; i < tensors.source_tensors; ++i) {
    if (tensors.expanded[i]) {
      order.push_back({Kind::kExpanded, i});
      continue;
    }
    const auto padded = FindTensor(tensors.computed, tensors.travelling[i].path);
    if (!padded) continue;
    order.push_back({Kind::kComputed, *padded});
    placed[*padded] = true;
  }
  using Named = std::tuple<std::string_view, bool, DeliveredPlace>;  // splits come second
  std::vector<Named> named;
  for (std::size_t i = tensors.source_tensors; i < tensors.travelling.size(); ++i) {
    if (!tensors.expanded[i]) continue;
    const TensorSpec& tensor = tensors.travelling[i];
    named.emplace_back(SortName(tensors.travelling, tensor), tensor.kind == TensorKind::kSplits,
                       DeliveredPlace{Kind::kExpanded, i});
  }
  for (std::size_t i = 0; i < tensors.computed.size(); ++i) {
    if (placed[i]) continue;
    const TensorSpec& tensor = tensors.computed[i];
    named.emplace_back(SortName(tensors.computed, tensor), tensor.kind == TensorKind::kSplits,
                       DeliveredPlace{Kind::kComputed, i});
  }
  for (std::size_t i = 0; i < tensors.masks.size(); ++i) {
    named.emplace_back(tensors.masks[i].path, false, DeliveredPlace{Kind::kMask, i});
  }
  std::sort(named.begin(), named.end(), [](const Named& a, const Named& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  for (const Named& one : named) order.push_back(std::get<2>(one));
  return order;
}

}  // namespace millrace::internal
