#include "server/files/file_io.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::TempDir;

std::string TextOf(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

Status WriteText(const fs::path& path, const fs::path& temporary, const std::string& text) {
  return WriteWholeFile(path, temporary, std::as_bytes(std::span(text)));
}

TEST_CASE("a whole file takes the place of an older one, and of what an earlier writer left",
          "[file_io]") {
  const TempDir dir;
  std::ofstream(dir / "a") << "older";
  std::ofstream(dir / "a.tmp") << "the beginning of one that was never whole";
  REQUIRE(WriteText(dir / "a", dir / "a.tmp", "new").ok());
  CHECK(TextOf(dir / "a") == "new");
  CHECK_FALSE(fs::exists(dir / "a.tmp"));
}

TEST_CASE("a whole file that cannot be written leaves the older one, and nothing else",
          "[file_io]") {
  const TempDir dir;
  fs::create_directories(dir / "a/full");
  const Status status = WriteText(dir / "a", dir / "a.tmp", "new");
  CHECK_FALSE(status.ok());
  CHECK_THAT(status.message(), Contains("a.tmp: cannot be renamed to "));
  CHECK(fs::is_directory(dir / "a"));
  CHECK_FALSE(fs::exists(dir / "a.tmp"));
  CHECK_THAT(WriteText(dir / "none/b", dir / "none/b.tmp", "new").message(), Contains("b.tmp"));
}

}  // namespace
}  // namespace millrace
