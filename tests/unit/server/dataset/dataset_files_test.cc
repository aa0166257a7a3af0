#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/dataset/dataset_files.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

std::vector<std::string> Parts(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool PlainLess(const std::string& a, const std::string& b) {
  const auto bytes = [](const std::string& s) {
    std::vector<std::vector<unsigned char>> parts;
    for (const std::string& part : Parts(s)) parts.emplace_back(part.begin(), part.end());
    return parts;
  };
  return bytes(a) < bytes(b);
}

TEST_CASE("names compare as path parts", "[order]") {
  CHECK(NameLess("a/c1/d.bin", "a/c1.bin"));
  CHECK(NameLess("a/b.bin", "a/c.bin"));
  CHECK(NameLess("a.bin", "a/b.bin") == PlainLess("a.bin", "a/b.bin"));
  rc::prop("names compare as lists of parts do", [] {
    const auto name = rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab/.\x80")));
    const std::string a = *name;
    const std::string b = *name;
    RC_ASSERT(NameLess(a, b) == PlainLess(a, b));
  });
}

TEST_CASE("a file is found by its suffix, which is not all of its name", "[order]") {
  const test::TempDir dir;
  for (const char* const name : {".bin", "bin", "a.bin.old", "b.BIN"}) {
    std::ofstream(dir / name) << "x";
  }
  CHECK_FALSE(HasDatasetFile(dir.path()));
  std::filesystem::create_directories(dir / "c/.bin");
  std::ofstream(dir / "c/.bin/d.bin") << "x";
  CHECK(HasDatasetFile(dir.path()));
  CHECK(ListDataset(dir.path())->names == std::vector<std::string>{"c/.bin/d.bin"});
}

TEST_CASE("a dataset has nothing of what is kept in its folder", "[order]") {
  const test::TempDir dir;
  std::filesystem::create_directories(dir / ".millrace.columns");
  std::ofstream(dir / ".millrace.columns/a.bin") << "x";
  CHECK_FALSE(HasDatasetFile(dir.path()));
  std::filesystem::create_directories(dir / "a/.millrace.columns");
  std::ofstream(dir / "a/.millrace.columns/b.bin") << "x";
  CHECK(ListDataset(dir.path())->names == std::vector<std::string>{"a/.millrace.columns/b.bin"});
}

}  // namespace
}  // namespace millrace
