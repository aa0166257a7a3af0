#include "server/kinds/graph/format/safetensors_header.h"

#include <catch2/catch.hpp>

#include <string>

namespace millrace {
namespace {

using Catch::Contains;

std::string SafetensorsFile(const std::string& header, std::size_t bytes) {
  std::string file;
  for (unsigned i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return file + header + std::string(bytes, '\0');
}

auto ReadSafetensors(const std::string& file) {
  return ReadSafetensorsHeader(std::as_bytes(std::span(file)));
}

std::string SafetensorsError(const std::string& file) {
  const auto arrays = ReadSafetensors(file);
  REQUIRE_FALSE(arrays.ok());
  CHECK(arrays.status().code() == StatusCode::kDataLoss);
  return arrays.status().message();
}

TEST_CASE("the tensors of a safetensors file are found by name", "[safetensors]") {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,2],"data_offsets":[4,12]},)"
      R"("a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},)"
      R"("s":{"dtype":"U8","shape":[],"data_offsets":[12,13]}}  )";
  const auto arrays = ReadSafetensors(SafetensorsFile(header, 13));
  INFO(arrays.status().message());
  REQUIRE(arrays.ok());
  CHECK(arrays->size() == 3);
  CHECK(arrays->at("a").type == ArrayType{DType::kInt32, {1}});
  CHECK(arrays->at("a").offset == 8 + header.size());
  CHECK(arrays->at("b").type == ArrayType{DType::kBFloat16, {2, 2}});
  CHECK(arrays->at("b").offset == 8 + header.size() + 4);
}

TEST_CASE("a safetensors file that is cut off or too long is refused", "[safetensors]") {
  const std::string whole =
      SafetensorsFile(R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4);
  REQUIRE(ReadSafetensors(whole).ok());
  for (std::size_t length = 0; length < whole.size(); ++length)
    SafetensorsError(whole.substr(0, length));
  CHECK_THAT(SafetensorsError(whole + "x"), Contains("is too long"));
}

TEST_CASE("tensors that contradict their bytes are refused by name", "[safetensors]") {
  const auto error = [](const std::string& tensor) {
    return SafetensorsError(SafetensorsFile("{\"t\":" + tensor + "}", 4));
  };
  CHECK_THAT(error(R"({"dtype":"I32","shape":[2],"data_offsets":[0,4]})"),
             Contains("tensor 't': int32 [2] has 8 bytes, but its data_offsets are 0 and 4"));
  CHECK_THAT(error(R"({"dtype":"U8","shape":[3],"data_offsets":[0,4]})"),
             Contains("tensor 't': uint8 [3] has 3 bytes, but its data_offsets are 0 and 4"));
  CHECK_THAT(error(R"({"dtype":"I32","shape":[1],"data_offsets":[4,0]})"), Contains("'t'"));
  CHECK_THAT(error(R"({"dtype":"I32","shape":[1],"data_offsets":[0]})"), Contains("two"));
  CHECK_THAT(error(R"({"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]})"),
             Contains("dtype: 'F8_E4M3' is not supported"));
  CHECK_THAT(error(R"({"dtype":"I32","shape":[1],"data_offsets":[0,4],"x":1})"),
             Contains("the key 'x' is unknown"));
  CHECK_THAT(error("7"), Contains("expected an object"));
  CHECK_THAT(error(R"({"dtype":"I32","shape":[1],"data_offsets":[1,5]})"), Contains("hole"));
}

TEST_CASE("a safetensors header that is no JSON or too long is refused", "[safetensors]") {
  CHECK_THAT(SafetensorsError(SafetensorsFile("{", 0)), Contains("is no JSON"));
  CHECK_THAT(SafetensorsError(SafetensorsFile("[]", 0)), Contains("is no object"));
  CHECK_THAT(SafetensorsError(std::string(16, '\xff')), Contains("expected at most 100000000"));
}

}  // namespace
}  // namespace millrace
