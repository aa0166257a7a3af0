#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "server/files/mapped_file.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

TEST_CASE("a mapped file notices that its path leads to something else", "[mapped_file]") {
  const test::TempDir dir;
  test::WriteBytes(dir / "file", std::vector<std::byte>(10));
  const auto file = MappedFile::Open(dir / "file", AccessPattern::kRandom);
  REQUIRE(file.ok());
  CHECK(file->bytes().size() == 10);
  CHECK_FALSE(file->Changed());
  SECTION("another file under its name") {
    test::WriteBytes(dir / "other", std::vector<std::byte>(10));
    std::filesystem::rename(dir / "other", dir / "file");
    CHECK(file->Changed());
  }
  SECTION("another size") {
    std::filesystem::resize_file(dir / "file", 11);
    CHECK(file->Changed());
  }
  SECTION("nothing") {
    std::filesystem::remove(dir / "file");
    CHECK(file->Changed());
  }
}

/// The flags that the kernel shows for this process's map of a file (proc(5), VmFlags); empty if
/// there are none.
std::string MapFlags(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/smaps");
  bool of_file = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("VmFlags:") && of_file) return line + " ";
    if (line.find('-') < line.find(' ')) of_file = line.ends_with(path.string());
  }
  return {};
}

TEST_CASE("the kernel is told how a file is going to be read", "[mapped_file]") {
  const test::TempDir dir;
  const std::filesystem::path path = std::filesystem::canonical(dir.path()) / "file";
  test::WriteBytes(path, std::vector<std::byte>(10));
  const auto flags = [&path](AccessPattern pattern) {
    const auto file = MappedFile::Open(path, pattern);
    REQUIRE(file.ok());
    return MapFlags(path);
  };
  const std::string random = flags(AccessPattern::kRandom);
  if (random.empty()) return;  // the kernel has no smaps
  CHECK(random.find(" rr ") != std::string::npos);
  CHECK(flags(AccessPattern::kSequential).find(" sr ") != std::string::npos);
  const std::string mixed = flags(AccessPattern::kMixed);
  CHECK_FALSE(mixed.empty());
  CHECK(mixed.find(" rr ") == std::string::npos);
  CHECK(mixed.find(" sr ") == std::string::npos);
}

}  // namespace
}  // namespace millrace
