#include "common/tensor/tensor_type.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "common/batch/layout/tensor_table.h"

namespace millrace {
namespace {

std::string ErrorOf(const std::string& text) { return ParseTensorType(text).status().message(); }

TEST_CASE("a type's text is read and written", "[tensor]") {
  for (const std::string text : {"float32", "float32[80]", "float32[*, 80]", "uint8[8, 8, 24]",
                                 "bool[*]", "bfloat16[1]", "int64"}) {
    const Result<TensorType> type = ParseTensorType(text);
    REQUIRE(type.ok());
    CHECK(TensorTypeText(*type) == text);
  }
  const TensorType type = ParseTensorType(" float32 [ *,80 ] ").value();
  CHECK(type.dtype == DType::kFloat32);
  CHECK(type.ragged);
  CHECK(type.inner == std::vector<std::uint32_t>{80});
  CHECK(type.rank() == 3);
  CHECK(type.UnitBytes() == 320);
}

TEST_CASE("bytes and str are short for uint8", "[tensor]") {
  CHECK(TensorTypeText(ParseTensorType("bytes[194]").value()) == "uint8[194]");
  CHECK(TensorTypeText(ParseTensorType("bytes[*]").value()) == "uint8[*]");
  CHECK(ParseTensorType("str").value() == ParseTensorType("bytes[*]").value());
}

TEST_CASE("messages show the rows of a type", "[tensor]") {
  TensorType type = ParseTensorType("uint8[1552]").value();
  CHECK(DescribeTensorType(type) == "uint8[batch, 1552]");
  type.ragged = true;
  type.rows = "nodes";
  CHECK(DescribeTensorType(type) == "uint8[nodes, *, 1552]");
  CHECK(DescribeTensorType(ParseTensorType("int64").value()) == "int64[batch]");
}

TEST_CASE("an error in a type's text names its column", "[tensor]") {
  CHECK(ErrorOf("float") == "column 1: expected a type such as float32, bytes or str, got 'float'");
  CHECK(ErrorOf("") == "column 1: expected a type such as float32, bytes or str, got ''");
  CHECK(ErrorOf("float32[80") == "column 11: expected ',' or ']'");
  CHECK(ErrorOf("float32[80, *]") == "column 13: * stands only for the first extent");
  CHECK(ErrorOf("float32[*, *]") == "column 12: * stands only for the first extent");
  CHECK(ErrorOf("float32[8, 0]") ==
        "column 12: an extent is * or expected an integer from 1 to 2147483647, got '0'");
  CHECK(ErrorOf("float32[]").rfind("column 9: ", 0) == 0);
  CHECK(ErrorOf("float32[8]x") == "column 11: expected the end of the type");
  CHECK(ErrorOf("bytes") == "column 1: expected bytes[n] or bytes[*]");
  CHECK(ErrorOf("bytes[*, 3]") == "column 1: expected bytes[n] or bytes[*]");
  CHECK(ErrorOf("str[*]") ==
        "column 4: expected the end of the type: str is one text; lists of texts, str[*], are "
        "features of records only");
  CHECK(ErrorOf("str 3") == "column 5: expected the end of the type");
  CHECK(ErrorOf("uint8[65536, 65536]") ==
        "column 1: expected at most 268435456 values in a row or element");
  CHECK(ErrorOf("uint8[1,1,1,1,1,1,1,1]") == "column 1: expected at most 7 fixed axes, got 8");
  // What a batch can hold, so that a tensor may be computed at any place.
  static_assert(kMaxInnerAxes == kMaxInner);
}

}  // namespace
}  // namespace millrace
