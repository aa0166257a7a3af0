#include "common/expand/delivered_order.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace millrace::internal {
namespace {

using Names = std::vector<std::string>;

/// A tensor for each name. NAME+ is a ragged tensor NAME with its splits NAME_splits.
std::vector<TensorSpec> TensorsOf(const Names& names) {
  std::vector<TensorSpec> tensors;
  for (std::string name : names) {
    const bool ragged = name.ends_with('+');
    if (ragged) name.pop_back();
    TensorSpec tensor;
    tensor.path = name;
    if (ragged) tensor.splits = name + "_splits";
    tensors.push_back(tensor);
    if (!ragged) continue;
    TensorSpec splits;
    splits.path = tensor.splits;
    splits.kind = TensorKind::kSplits;
    tensors.push_back(splits);
  }
  return tensors;
}

Names Ordered(const Names& travelling, std::size_t source, const Names& not_delivered,
              const Names& computed) {
  const std::vector<TensorSpec> all = TensorsOf(travelling);
  const std::vector<TensorSpec> made = TensorsOf(computed);
  std::vector<bool> expanded;
  for (const TensorSpec& tensor : all) {
    expanded.push_back(std::find(not_delivered.begin(), not_delivered.end(), tensor.path) ==
                       not_delivered.end());
  }
  Names names;
  for (const DeliveredPlace& place : DeliveredOrder({all, expanded, source, made})) {
    const bool is_expanded = place.kind == DeliveredPlace::Kind::kExpanded;
    names.push_back((is_expanded ? all : made)[place.number].path);
  }
  return names;
}

TEST_CASE("the source's tensors keep their order, and the others go by the bytes of their names",
          "[delivery]") {
  CHECK(Ordered({"z", "y+", "x"}, 4, {}, {}) == Names{"z", "y", "y_splits", "x"});
  CHECK(Ordered({"z", "y+", "b", "x"}, 3, {}, {"a", "bb", "w", "y_"}) ==
        Names{"z", "y", "y_splits", "a", "b", "bb", "w", "x", "y_"});
  CHECK(Ordered({"b", "é", "B"}, 0, {}, {"a", "A"}) == Names{"A", "B", "a", "b", "é"});
}

TEST_CASE("splits follow what they cut, whatever their names", "[delivery]") {
  CHECK(Ordered({"b+", "d+"}, 0, {}, {"b_", "b_s", "c+"}) ==
        Names{"b", "b_splits", "b_", "b_s", "c", "c_splits", "d", "d_splits"});
}

TEST_CASE("what is not delivered has no place, and a padded tensor has its own", "[delivery]") {
  CHECK(Ordered({"z", "y+", "x", "w+"}, 4, {"z", "y", "y_splits", "w", "w_splits"},
                {"w", "y", "y.length"}) == Names{"y", "x", "w", "y.length"});
}

}  // namespace
}  // namespace millrace::internal
