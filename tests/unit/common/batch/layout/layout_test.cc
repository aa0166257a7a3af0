#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {
namespace {

TEST_CASE("the narrowest dtype holds its bounds and no narrower one does", "[layout]") {
  CHECK(NarrowestDType(0, 0) == DType::kUint8);
  CHECK(NarrowestDType(0, 255) == DType::kUint8);
  CHECK(NarrowestDType(0, 256) == DType::kUint16);
  CHECK(NarrowestDType(0, 65'535) == DType::kUint16);
  CHECK(NarrowestDType(0, 65'536) == DType::kUint32);
  CHECK(NarrowestDType(0, 0xffff'ffffu) == DType::kUint32);
  CHECK(NarrowestDType(0, std::uint64_t{1} << 32) == DType::kUint64);
  CHECK(NarrowestDType(-1, 127) == DType::kInt8);
  CHECK(NarrowestDType(-1, 128) == DType::kInt16);
  CHECK(NarrowestDType(-129, 0) == DType::kInt16);
  CHECK(NarrowestDType(-1, 32'768) == DType::kInt32);
  CHECK(NarrowestDType(-1, std::uint64_t{1} << 31) == DType::kInt64);
  CHECK(NarrowestDType(std::numeric_limits<std::int64_t>::min(), 0) == DType::kInt64);
}

TEST_CASE("the range of a dtype is that of its C++ type", "[layout]") {
  CHECK(DTypeMin(DType::kUint64) == 0);
  CHECK(DTypeMax(DType::kUint64) == std::numeric_limits<std::uint64_t>::max());
  CHECK(DTypeMin(DType::kInt8) == -128);
  CHECK(DTypeMax(DType::kInt8) == 127);
  CHECK(DTypeMin(DType::kInt64) == std::numeric_limits<std::int64_t>::min());
  CHECK(DTypeMax(DType::kInt64) == std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  CHECK(DTypeMax(DType::kUint16) == 65'535);
}

TEST_CASE("names on the wire are fixed", "[layout]") {
  CHECK(DTypeName(DType::kUint16) == "uint16");
  CHECK(TensorKindName(TensorKind::kRaggedValues) == "ragged_values");
  CHECK(TensorKindName(TensorKind::kTableReference) == "table_reference");
  CHECK(ExpansionName(Expansion::kNodeOffset) == "node_offset");
  CHECK(SymmetrizationName(Symmetrization::kBidirectional) == "bidirectional");
  CHECK(DropReasonName(DropReason::kUnlabelledDefinition) == "unlabelled_definition");
}

TEST_CASE("values are found by their names, and by no others", "[layout]") {
  for (int i = 0; i <= static_cast<int>(DType::kInt64); ++i) {
    CHECK(DTypeFromName(DTypeName(static_cast<DType>(i))) == static_cast<DType>(i));
  }
  for (int i = 0; i <= static_cast<int>(TensorKind::kTableReference); ++i) {
    const auto kind = static_cast<TensorKind>(i);
    CHECK(TensorKindFromName(TensorKindName(kind)) == kind);
  }
  for (int i = 0; i <= static_cast<int>(Symmetrization::kBidirectional); ++i) {
    const auto symmetrization = static_cast<Symmetrization>(i);
    CHECK(SymmetrizationFromName(SymmetrizationName(symmetrization)) == symmetrization);
  }
  CHECK_FALSE(DTypeFromName("float32"));
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
