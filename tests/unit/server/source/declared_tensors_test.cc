#include "server/source/declared_tensors.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace millrace {
namespace {

DeclaredTensor Declared(const std::string& name, const std::string& type) {
  return {name, *ParseTensorType(type)};
}

DeclaredTensors MustDeclare(const std::vector<DeclaredTensor>& tensors, std::uint64_t examples) {
  auto declared = DeclareTensors(tensors, examples);
  INFO(declared.status().message());
  REQUIRE(declared.ok());
  return *std::move(declared);
}

std::string DeclaredError(const std::vector<DeclaredTensor>& tensors) {
  const auto declared = DeclareTensors(tensors, 1);
  REQUIRE_FALSE(declared.ok());
  CHECK(declared.status().code() == StatusCode::kInvalidArgument);
  return declared.status().message();
}

TEST_CASE("declared tensors stand behind the ids, ragged ones before their splits",
          "[declared_tensors]") {
  const DeclaredTensors tensors = MustDeclare(
      {Declared("x", "float32[*, 80]"), Declared("d", "bytes[194]"), Declared("s", "int64")},
      70'000);
  std::vector<std::string> paths;
  for (const TensorSpec& spec : tensors.specs) paths.push_back(spec.path);
  CHECK(paths == std::vector<std::string>{"example_id", "x", "x_splits", "d", "s"});
  CHECK(tensors.numbers == std::vector<std::size_t>{1, 3, 4});
  CHECK(tensors.example_id == 0);
  const TensorSpec& ragged = tensors.specs[1];
  CHECK(ragged.kind == TensorKind::kRaggedValues);
  CHECK(ragged.splits == "x_splits");
  CHECK(ragged.inner == std::vector<std::uint64_t>{80});
  CHECK(tensors.specs[2].kind == TensorKind::kSplits);
  const TensorSpec& dense = tensors.specs[3];
  CHECK(dense.kind == TensorKind::kDense);
  CHECK(dense.dtype == DType::kUint8);
  CHECK(dense.row_values() == 194);
  // Values are delivered as they are: no index type widens or narrows them.
  CHECK(tensors.specs[4].expansion == Expansion::kKeep);
  CHECK(tensors.specs[4].dtype == DType::kInt64);
}

TEST_CASE("ids of declared sources are as narrow as their number allows", "[declared_tensors]") {
  CHECK(MustDeclare({Declared("s", "int64")}, 0).specs[0].max == 0);
  CHECK(MustDeclare({Declared("s", "int64")}, 256).specs[0].dtype == DType::kUint8);
  CHECK(MustDeclare({Declared("s", "int64")}, 257).specs[0].dtype == DType::kUint16);
}

TEST_CASE("a name that a batch has already is refused", "[declared_tensors]") {
  CHECK(CheckDeclaredName("d").ok());
  CHECK(CheckDeclaredName("_x9").ok());
  CHECK(CheckDeclaredName(std::string(128, 'n')).ok());
  for (const char* taken : {"example_id", "branch", "chunk", "graph"}) {
    CHECK(CheckDeclaredName(taken).message() ==
          "batches have something else of this name; choose another one");
  }
  for (const std::string& bad :
       {std::string(), std::string("9x"), std::string("a.b"), std::string("image/label"),
        std::string("\xC3\xA9"), std::string(129, 'n')}) {
    CHECK(CheckDeclaredName(bad).message() ==
          "a name is one word of at most 128 letters, digits and _ that begins with no digit");
  }
}

TEST_CASE("two declared tensors of one name are refused, splits among them", "[declared_tensors]") {
  CHECK(DeclaredError({Declared("x", "int64"), Declared("x", "int64")}) ==
        "x: there are two tensors x");
  CHECK(DeclaredError({Declared("x", "int64[*]"), Declared("x_splits", "int64")}) ==
        "x_splits: there are two tensors x_splits");
  CHECK(DeclaredError({Declared("x_splits", "int64"), Declared("x", "int64[*]")}) ==
        "x: there are two tensors x_splits");
}

TEST_CASE("a type that no batch can carry is refused by name", "[declared_tensors]") {
  TensorType type;
  type.inner = {0};
  CHECK_THAT(DeclaredError({{"x", type}}), Catch::StartsWith("x: "));
}

}  // namespace
}  // namespace millrace
