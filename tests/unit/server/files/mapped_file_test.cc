#include <sys/resource.h>

#include <catch2/catch.hpp>

#include <cstdint>
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

#if !defined(__SANITIZE_ADDRESS__) && !defined(_GLIBCXX_TSAN)  // these reserve terabytes
TEST_CASE("a file for which the address space is too small says which limit to raise",
          "[mapped_file]") {
  constexpr std::uint64_t kTebibyte = std::uint64_t{1} << 40;
  const test::TempDir dir;
  test::WriteBytes(dir / "file", std::vector<std::byte>(10));
  std::filesystem::resize_file(dir / "file", 2 * kTebibyte);  // all of it is a hole
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  rlimit less = before;
  less.rlim_cur = kTebibyte;
  REQUIRE(::setrlimit(RLIMIT_AS, &less) == 0);
  const Status status = MappedFile::Open(dir / "file", AccessPattern::kRandom).status();
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(status.message() ==
        "cannot be mapped: the address space (ulimit -v: 1073741824 kB) or the number of mappings "
        "(vm.max_map_count) is used up; raise it: Cannot allocate memory");
}
#endif

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
