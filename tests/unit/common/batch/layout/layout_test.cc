#include <catch2/catch.hpp>

#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {
namespace {

TEST_CASE("names on the wire are fixed", "[layout]") {
  CHECK(TensorKindName(TensorKind::kRaggedValues) == "ragged_values");
  CHECK(TensorKindName(TensorKind::kTableReference) == "table_reference");
  CHECK(ExpansionName(Expansion::kNodeOffset) == "node_offset");
  CHECK(SymmetrizationName(Symmetrization::kBidirectional) == "bidirectional");
  CHECK(DropReasonName(DropReason::kExcluded) == "excluded");
}

TEST_CASE("values are found by their names, and by no others", "[layout]") {
  for (int i = 0; i <= static_cast<int>(TensorKind::kTableReference); ++i) {
    const auto kind = static_cast<TensorKind>(i);
    CHECK(TensorKindFromName(TensorKindName(kind)) == kind);
  }
  for (int i = 0; i <= static_cast<int>(Symmetrization::kBidirectional); ++i) {
    const auto symmetrization = static_cast<Symmetrization>(i);
    CHECK(SymmetrizationFromName(SymmetrizationName(symmetrization)) == symmetrization);
  }
  CHECK_FALSE(TensorKindFromName("unknown"));
  CHECK_FALSE(SymmetrizationFromName(""));
}

TEST_CASE("delivered edge labels count reversed groups and the self group", "[layout]") {
  CHECK(ExpandSpec{30, Symmetrization::kBidirectional, true}.edge_labels() == 61);
  CHECK(ExpandSpec{30, Symmetrization::kUndirected, true}.edge_labels() == 31);
  CHECK(ExpandSpec{30, Symmetrization::kDirected, false}.edge_labels() == 30);
}

}  // namespace
}  // namespace millrace
