// The chess pipeline of the golden files, from the bytes of a record to the board, the flags and
// the mate bit.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/skip.h"
#include "tests/unit/common/operations/run_graph.h"

namespace millrace {
namespace {

using test::Ints;
namespace fs = std::filesystem;

// An .npz file is a zip archive of .npy files: a header whose length stands in bytes 8 and 9, and
// then the values.
constexpr const char* kExtract = R"(
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    for name in archive.namelist():
        data = archive.read(name)
        assert data[:7] == b'\x93NUMPY\x01', name
        with open(sys.argv[2] + '/' + name, 'wb') as out:
            out.write(data[10 + int.from_bytes(data[8:10], 'little'):])
)";

template <class T>
std::vector<T> ReadValues(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The values of expected.npz as files of their own, in a folder that goes with this object.
class ExpectedBoards {
 public:
  ExpectedBoards()
      : dir_(fs::temp_directory_path() / ("millrace_chess_" + std::to_string(getpid()))) {
    const std::string archive = test::SharedDirOrSkip() + "/golden-tensors/expected.npz";
    if (!fs::exists(archive)) test::SkipTest("no " + archive);
    fs::create_directories(dir_);
    std::ofstream(dir_ / "extract.py") << kExtract;
    const std::string command = "python3 '" + (dir_ / "extract.py").string() + "' '" + archive +
                                "' '" + dir_.string() + "'";
    if (std::system("python3 --version > /dev/null 2>&1") != 0) test::SkipTest("no python3");
    REQUIRE(std::system(command.c_str()) == 0);
  }
  ~ExpectedBoards() { fs::remove_all(dir_); }

  template <class T>
  std::vector<T> Read(const std::string& name) const {
    return ReadValues<T>(dir_ / (name + ".npy"));
  }

 private:
  const fs::path dir_;
};

std::vector<TensorDefinition> Chess(const std::string& dtype) {
  std::vector<std::int64_t> index;
  std::vector<std::int64_t> scale;
  for (std::int64_t i = 0; i < 24; ++i) {
    index.push_back(i / 6 + 4 * (i % 6));
    scale.push_back(i / 6 % 2 == 0 ? 1 : -1);
  }
  return {{"bits", "bits", {"d"}, Params({{"order", std::string("msb")}})},
          {"planes",
           "slice",
           {"bits"},
           Params({{"range", Ints{0, 1536}}, {"shape", Ints{8, 8, 24}}})},
          {"board",
           "take",
           {"planes"},
           Params(
               {{"axis", std::int64_t{-1}}, {"index", index}, {"scale", scale}, {"dtype", dtype}})},
          {"flags",
           "slice",
           {"bits"},
           Params({{"range", Ints{1536, 1546}}, {"dtype", dtype}})},
          {"mate",
           "slice",
           {"bits"},
           Params({{"range", Ints{1546, 1547}}, {"squeeze", true}})}};
}

template <class Real>
void CheckChess(const ExpectedBoards& expected, const std::string& dtype) {
  const std::vector<std::uint8_t> d = expected.Read<std::uint8_t>("d");
  REQUIRE(d.size() == 600 * 194);
  TensorGraphText text;
  text.definitions = Chess(dtype);
  text.outputs = {{"board", "flags", "mate"}};
  const test::NamedTensors made =
      test::RunGraph(text, {{"d", test::Dense("bytes[194]", 600, d)}}).value();
  CHECK(made.at("board").TypeText() == dtype + "[batch, 8, 8, 24]");
  const auto board = made.at("board").Values<Real>();
  const auto flags = made.at("flags").Values<Real>();
  const auto golden_board = expected.Read<std::int8_t>("board");
  const auto golden_flags = expected.Read<std::uint8_t>("flags");
  CHECK(std::vector<Real>(golden_board.begin(), golden_board.end()) == board);
  CHECK(std::vector<Real>(golden_flags.begin(), golden_flags.end()) == flags);
  const auto is_negative_zero = [](Real value) { return value == 0 && std::signbit(value); };
  CHECK(std::none_of(board.begin(), board.end(), is_negative_zero));
  CHECK(made.at("mate").TypeText() == "uint8[batch]");
  CHECK(made.at("mate").Values<std::uint8_t>() == expected.Read<std::uint8_t>("mate"));
}

TEST_CASE("the golden chess boards come out bit for bit", "[golden]") {
  const ExpectedBoards expected;
  CheckChess<float>(expected, "float32");
  CheckChess<double>(expected, "float64");
}

}  // namespace
}  // namespace millrace
