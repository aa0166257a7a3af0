// Headers of arrays' files: .npy, and safetensors. What a header says has to lie in the file.
#include "server/files/npy_header.h"

#include <algorithm>
#include <optional>
#include <span>

#include "server/kinds/graph/format/safetensors_header.h"
#include "tests/fuzz/fuzz.h"

namespace millrace::fuzz {
namespace {

void CheckArray(const StoredArray& array, std::size_t size) {
  RequireOk(CheckShape(array.type), "a shape that was read");
  const std::optional<std::uint64_t> bytes = array.type.Bytes();
  Require(bytes.has_value(), "a shape that was read has bytes");
  Require(array.offset <= size && *bytes <= size - array.offset, "an array lies in its file");
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const auto file = std::as_bytes(std::span(data, size));
  const auto array = ReadNpyHeader(file);
  if (array.ok()) {
    fuzz::CheckArray(*array, size);
    const std::string header = MakeNpyHeader(array->type);
    std::vector<std::byte> again(header.size() + *array->type.Bytes());
    std::copy_n(std::as_bytes(std::span(header)).begin(), header.size(), again.begin());
    const auto read = ReadNpyHeader(again);
    fuzz::RequireOk(read.status(), "a header that was written");
    fuzz::Require(read->type == array->type, "a header that was written is the same");
  } else {
    fuzz::Require(array.status().code() == StatusCode::kDataLoss, "a bad .npy file is DataLoss");
  }
  const auto tensors = ReadSafetensorsHeader(file);
  if (!tensors.ok()) {
    fuzz::Require(tensors.status().code() == StatusCode::kDataLoss,
                  "a bad safetensors file is DataLoss");
    return 0;
  }
  for (const auto& entry : *tensors) {
    if (!entry.second.type.shape.empty()) fuzz::CheckArray(entry.second, size);
  }
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds;
  for (const ArrayType& type :
       {ArrayType{DType::kFloat32, {2, 3}}, ArrayType{DType::kBool, {0}},
        ArrayType{DType::kBFloat16, {1, 2, 3}}, ArrayType{DType::kInt64, {4}}}) {
    seeds.push_back(MakeNpyHeader(type) + std::string(*type.Bytes(), '\0'));
  }
  const std::string dict = "{'descr': '<f2', 'fortran_order': True, 'shape': (2,)}";
  seeds.push_back(std::string("\x93NUMPY\x02\x00", 8) + static_cast<char>(dict.size()) +
                  std::string(3, '\0') + dict + "1234");
  const std::string header =
      R"({"__metadata__":{"a":"b"},"x":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},)"
      R"("s":{"dtype":"U8","shape":[],"data_offsets":[4,5]}})";
  seeds.push_back(std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header +
                  "12345");
  return seeds;
}
