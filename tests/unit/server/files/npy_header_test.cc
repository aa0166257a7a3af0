#include "server/files/npy_header.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/skip.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

Result<StoredArray> ReadNpy(const std::string& bytes) {
  return ReadNpyHeader(std::as_bytes(std::span(bytes)));
}

/// A file of version 1 with this header and as many bytes after it.
std::string NpyFile(const std::string& dict, std::size_t bytes = 0) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(dict.size() & 0xFF);
  file += static_cast<char>(dict.size() >> 8);
  return file + dict + std::string(bytes, '\0');
}

std::string NpyError(const std::string& bytes) {
  const auto array = ReadNpy(bytes);
  REQUIRE_FALSE(array.ok());
  CHECK(array.status().code() == StatusCode::kDataLoss);
  return array.status().message();
}

TEST_CASE("headers of versions 1 to 3 that numpy wrote are read", "[npy]") {
  const fs::path headers = fs::path(test::SharedDirOrSkip()) / "golden-graphs/headers";
  for (const std::string version : {"1", "2", "3"}) {
    const auto array = ReadNpy(test::ReadText(headers / ("good_v" + version + ".npy")));
    INFO(version << ": " << array.status().message());
    REQUIRE(array.ok());
    CHECK(array->type == ArrayType{DType::kFloat32, {2, 3}});
    CHECK(array->offset == 128);
  }
  const auto empty = ReadNpy(test::ReadText(headers / "good_empty.npy"));
  REQUIRE(empty.ok());
  CHECK(empty->type == ArrayType{DType::kFloat32, {0, 3}});
}

TEST_CASE("golden files that no dataset may have are refused with the reason", "[npy]") {
  const fs::path headers = fs::path(test::SharedDirOrSkip()) / "golden-graphs/headers";
  const std::map<std::string, std::string> reasons = {
      {"bad_big_endian.npy", "big endian"},
      {"bad_complex.npy", "complex numbers"},
      {"bad_compressed.npz", ".npz"},
      {"bad_fortran.npy", "Fortran order"},
      {"bad_header_length.npy", "header has 65535 bytes, but only 142 follow"},
      {"bad_object.npy", "Python objects"},
      {"bad_record.npy", "records"},
      {"bad_scalar.npy", "scalar"},
      {"bad_trailing.npy", "too long"},
      {"bad_truncated.npy", "cut off"}};
  std::size_t bad = 0;
  for (const auto& file : fs::directory_iterator(headers)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with("bad_")) continue;
    INFO(name);
    REQUIRE(reasons.count(name) == 1);
    CHECK_THAT(NpyError(test::ReadText(file.path())), Contains(reasons.at(name)));
    ++bad;
  }
  CHECK(bad == reasons.size());
}

TEST_CASE("a header is read as it was written, and the values are aligned", "[npy]") {
  for (std::size_t d = 0; d < kDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (const std::vector<std::uint64_t>& shape :
         {std::vector<std::uint64_t>{5}, {0}, {2, 3}, {1, 2, 1, 2, 1, 2, 1, 2}}) {
      const ArrayType type{dtype, shape};
      const std::string header = MakeNpyHeader(type);
      CHECK(header.size() % 64 == 0);
      const auto read = ReadNpy(header + std::string(*type.Bytes(), '\0'));
      INFO(type.ToString() << ": " << read.status().message());
      REQUIRE(read.ok());
      CHECK(read->type == ArrayType{NpyDType(dtype), shape});
      CHECK(read->offset == header.size());
    }
  }
}

TEST_CASE("Fortran order of one dimension is row-major order", "[npy]") {
  CHECK(ReadNpy(NpyFile("{'descr': '|u1', 'fortran_order': True, 'shape': (3,)}", 3)).ok());
  CHECK_THAT(NpyError(NpyFile("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 1)}", 3)),
             Contains("Fortran"));
}

TEST_CASE("keys may stand in any order and in either quotes, but each once", "[npy]") {
  CHECK(ReadNpy(NpyFile("{ \"shape\":( 1 , ) ,'fortran_order':False,\"descr\":'<i2',}\n", 2)).ok());
  CHECK_THAT(NpyError(NpyFile("{'descr': '<i2', 'descr': '<i2'}")), Contains("twice"));
  CHECK_THAT(NpyError(NpyFile("{'descr': '<i2', 'fortran_order': False}")),
             Contains("expected the keys"));
  CHECK_THAT(NpyError(NpyFile("{'descr': '<i2', 'mine': False}")), Contains("the key 'mine'"));
}

TEST_CASE("malformed headers are refused", "[npy]") {
  for (const std::string dict :
       {"", "{", "{}", "{'descr", "{'descr'}", "{'descr': <i2}", "{'shape': 3}", "{'shape': (}",
        "{'shape': (1 2)}", "{'shape': (-1,)}", "{'shape': (99999999999999999999,)}",
        "{'fortran_order': Maybe}", "{'descr': '<i2' 'shape': (1,)}", "{'a\\'b': 1}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (1,)} x"}) {
    INFO(dict);
    CHECK_THAT(NpyError(NpyFile(dict, 2)), Contains(".npy header that cannot be read"));
  }
  for (const std::string descr : {"", "<", "i4", "|i4", "=i4", "<i3", "<f16", "<V2", "<M8[ns]"}) {
    INFO(descr);
    NpyError(NpyFile("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (1,)}", 4));
  }
}

TEST_CASE("a file cut off within its header is refused at every byte", "[npy]") {
  const std::string whole = MakeNpyHeader({DType::kInt32, {1}}) + "1234";
  REQUIRE(ReadNpy(whole).ok());
  for (std::size_t length = 0; length < whole.size(); ++length) NpyError(whole.substr(0, length));
}

TEST_CASE("a shape whose bytes overflow is refused", "[npy]") {
  const std::string huge = "281474976710655";
  CHECK_THAT(NpyError(NpyFile("{'descr': '<i8', 'fortran_order': False, 'shape': (" + huge + ", " +
                              huge + ")}")),
             Contains("2^63"));
  CHECK_THAT(NpyError(NpyFile("{'descr': '<i8', 'fortran_order': False, 'shape': "
                              "(281474976710656,)}")),
             Contains("expected extents of at most"));
  CHECK_THAT(NpyError(NpyFile(
                 "{'descr': '<i8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 8)),
             Contains("more than 8 dimensions"));
}

TEST_CASE("a header of version 2 is as long as its four bytes say, and at most 64 KiB", "[npy]") {
  const auto file = [](std::size_t length, std::size_t said) {
    std::string dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (0,)}";
    dict.append(length - dict.size(), ' ');
    std::string all("\x93NUMPY\x02\x00", 8);
    for (int shift = 0; shift < 32; shift += 8) all += static_cast<char>(said >> shift & 0xFF);
    return all + dict;
  };
  CHECK(ReadNpy(file(100, 100)).ok());
  CHECK(ReadNpy(file(65536, 65536))->offset == 65548);
  CHECK_THAT(NpyError(file(65537, 65537)),
             Contains("header of 65537 bytes, expected at most 65536"));
  for (const std::size_t more : {1UL << 8, 1UL << 16, 1UL << 24}) {
    CHECK_THAT(NpyError(file(100, 100 + more)), Contains("but only 100 follow"));
  }
}

TEST_CASE("types have the names that numpy gives them", "[npy]") {
  CHECK(NpyTypeText(DType::kUint16) == "<u2");
  CHECK(NpyTypeText(DType::kFloat64) == "<f8");
  CHECK(NpyTypeText(DType::kBool) == "|b1");
  CHECK(NpyTypeText(DType::kInt8) == "|i1");
  CHECK(NpyTypeText(DType::kBFloat16) == "<u2");
}

TEST_CASE("other versions of .npy are refused by number", "[npy]") {
  std::string file = NpyFile("{'descr': '|u1', 'fortran_order': False, 'shape': (0,)}");
  file[6] = 4;
  CHECK_THAT(NpyError(file), Contains("version 4.0"));
  file[6] = 1;
  file[7] = 1;
  CHECK_THAT(NpyError(file), Contains("version 1.1"));
}

}  // namespace
}  // namespace millrace
