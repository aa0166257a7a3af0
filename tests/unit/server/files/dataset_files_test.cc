#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/stat.h>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/files/dataset_files.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

std::vector<std::string> Components(const std::string& name) {
  std::vector<std::string> components(1);
  for (const char c : name) {
    if (c == '/') {
      components.emplace_back();
    } else {
      components.back() += c;
    }
  }
  return components;
}

bool PlainLess(const std::string& a, const std::string& b) {
  const auto bytes = [](const std::string& s) {
    std::vector<std::vector<unsigned char>> components;
    for (const std::string& component : Components(s))
      components.emplace_back(component.begin(), component.end());
    return components;
  };
  return bytes(a) < bytes(b);
}

TEST_CASE("names compare as path components", "[order]") {
  CHECK(NameLess("a/c1/d.bin", "a/c1.bin"));
  CHECK(NameLess("a/b.bin", "a/c.bin"));
  CHECK(NameLess("a.bin", "a/b.bin") == PlainLess("a.bin", "a/b.bin"));
  rc::prop("names compare as lists of components do", [] {
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
  std::filesystem::create_directories(dir / "c/bin");
  std::ofstream(dir / "c/bin/d.bin") << "x";
  CHECK(HasDatasetFile(dir.path()));
  CHECK(ListDataset(dir.path())->names == std::vector<std::string>{"c/bin/d.bin"});
}

TEST_CASE("nothing with a component that begins with a dot is of a dataset", "[order]") {
  const test::TempDir dir;
  for (const char* const folder : {".millrace.columns", "a/.git"}) {
    std::filesystem::create_directories(dir / folder);
    std::ofstream(dir / folder / "a.bin") << "x";
  }
  std::ofstream(dir / ".b.bin") << "x";
  CHECK_FALSE(HasDatasetFile(dir.path()));
  std::ofstream(dir / "a/c.bin") << "x";
  CHECK(ListDataset(dir.path())->names == std::vector<std::string>{"a/c.bin"});
}

TEST_CASE("only regular files are looked at by name", "[order]") {
  const test::TempDir dir;
  std::filesystem::create_directories(dir / "x.bin/y.bin");
  REQUIRE(::mkfifo((dir / "pipe.bin").c_str(), 0600) == 0);
  CHECK_FALSE(HasDatasetFile(dir.path()));
  std::ofstream(dir / "x.bin/y.bin/z.bin") << "x";
  std::filesystem::create_symlink("x.bin/y.bin/z.bin", dir / "link.bin");
  const auto listing = ListDataset(dir.path());
  REQUIRE(listing.ok());
  CHECK(listing->names == std::vector<std::string>{"link.bin", "x.bin/y.bin/z.bin"});
  CHECK(listing->bad.empty());
  std::filesystem::create_symlink("nowhere", dir / "gone.bin");
  CHECK(ListDataset(dir.path())->bad.size() == 1);
}

TEST_CASE("links to folders are named, and not followed", "[order]") {
  const test::TempDir dir;
  const test::TempDir other;
  std::ofstream(other / "a.bin") << "x";
  std::filesystem::create_directories(dir / "sub");
  std::filesystem::create_directory_symlink(other.path(), dir / "sub/more.bin");
  CHECK_THAT(
      ListDataset(dir.path()).status().message(),
      Catch::Matchers::Contains("(links to folders, such as sub/more.bin, are not followed)"));
  std::ofstream(dir / "b.bin") << "x";
  CHECK(ListDataset(dir.path())->names == std::vector<std::string>{"b.bin"});
  CHECK(ListDataset(dir.path())->linked_folders == std::vector<std::string>{"sub/more.bin"});
  CHECK(DescribeLinkedFolders(dir.path()) ==
        "  not followed, a link to a folder: sub/more.bin\n");
}

}  // namespace
}  // namespace millrace
