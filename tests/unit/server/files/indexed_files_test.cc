// Files of an indexed dataset, which are mapped when they are read, and watched.
#include "server/files/indexed_files.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "server/files/sigbus_guard.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::TempDir;

/// Files a, b and sub/c in a folder.
struct FolderOfFiles {
  FolderOfFiles() {
    fs::create_directories(dir / "sub");
    for (const std::string name : {"a", "b", "sub/c"}) {
      const std::string content = "content of " + name;
      std::ofstream(dir / name) << content;
      const FileIdentity identity = *IdentifyFile(dir / name);
      files.push_back({name, identity.size, Xxh3(content), identity});
    }
    std::ofstream(dir / "index") << "the index";
  }
  IndexedFiles Open() const {
    return {dir.path(), files,
            std::make_shared<const MappedFile>(
                *MappedFile::Open(dir / "index", AccessPattern::kRandom))};
  }

  TempDir dir;
  std::vector<IndexedFile> files;
};

std::string TextOfFile(const Result<const MappedFile*>& file) {
  REQUIRE(file.ok());
  const auto bytes = (*file)->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void MakeFileNewer(const fs::path& path) {
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(2));
}

TEST_CASE("an indexed file is opened once, when it is first read", "[indexed_files]") {
  const FolderOfFiles folder;
  fs::remove(folder.dir / "b");  // which nobody reads
  const IndexedFiles files = folder.Open();
  const auto first = files.Open(2);
  CHECK(TextOfFile(first) == "content of sub/c");
  CHECK(*files.Open(2) == *first);
  CHECK(files.Damages().empty());
  CHECK(files.Check({}).damaged.empty());
}

TEST_CASE("a file of another identity is believed if it has the indexed bytes", "[indexed_files]") {
  FolderOfFiles folder;
  MakeFileNewer(folder.dir / "a");
  folder.files[1].identity.reset();
  const IndexedFiles files = folder.Open();
  CHECK(TextOfFile(files.Open(0)) == "content of a");
  CHECK(TextOfFile(files.Open(1)) == "content of b");
  CHECK(files.Damages().empty());
}

TEST_CASE("a file that is not the indexed one is damaged, and said once", "[indexed_files]") {
  const FolderOfFiles folder;
  const auto error = [&](std::uint32_t number, const IndexedFiles& files) {
    const auto file = files.Open(number);
    CHECK(file.status().code() == StatusCode::kDataLoss);
    return file.status().message();
  };
  std::ofstream(folder.dir / "a") << "CONTENT of a";
  std::ofstream(folder.dir / "b") << "short";
  fs::remove(folder.dir / "sub/c");
  const IndexedFiles files = folder.Open();
  const std::string of = " of dataset " + folder.dir.path().string() + ": ";
  CHECK_THAT(error(0, files),
             Contains("file a" + of + "has digest ") && Contains("index the dataset again"));
  CHECK(error(1, files) == "file b" + of + "has 5 bytes, expected 12; index the dataset again");
  CHECK_THAT(error(2, files), Contains("file sub/c" + of));
  CHECK(files.Damages().size() == 3);
  CHECK(files.Check({}).damaged.size() == 3);
  CHECK(files.Check({}).damaged.empty());
}

TEST_CASE("an indexed file that is written to while it is in use is damaged", "[indexed_files]") {
  InstallSigbusGuard();
  const FolderOfFiles folder;
  const IndexedFiles files = folder.Open();
  REQUIRE(files.Open(0).ok());
  REQUIRE(files.Open(1).ok());
  CHECK(files.Check({}).damaged.empty());
  SECTION("overwritten") {
    std::fstream(folder.dir / "a", std::ios::in | std::ios::out) << "CONTENT";
    MakeFileNewer(folder.dir / "a");
    const FileNews news = files.Check({});
    REQUIRE(news.damaged.size() == 1);
    CHECK(news.damaged[0].file == 0);
    CHECK(news.damaged[0].name == "a");
    CHECK_THAT(news.damaged[0].what, Contains("was written to while it was in use"));
    CHECK(files.Damages().size() == 1);
  }
  SECTION("cut off") {
    fs::resize_file(folder.dir / "b", 3);
    const FileNews news = files.Check({});
    REQUIRE(news.damaged.size() == 1);
    CHECK_THAT(news.damaged[0].what, Contains("has 3 bytes, had 12"));
  }
  SECTION("touched") {
    MakeFileNewer(folder.dir / "a");
    std::vector<std::string> touched;
    for (int look = 0; look < 2; ++look) {
      const FileNews news = files.Check({});
      CHECK(news.damaged.empty());
      touched.insert(touched.end(), news.touched.begin(), news.touched.end());
    }
    CHECK(touched == std::vector<std::string>{"a"});
    CHECK(files.Damages().empty());
  }
  SECTION("replaced") {
    std::ofstream(folder.dir / "other") << "other content";
    fs::rename(folder.dir / "other", folder.dir / "a");
    const FileNews news = files.Check({});
    CHECK(news.damaged.empty());
    REQUIRE(news.replaced.size() == 1);
    CHECK(news.replaced[0].name == "a");
    CHECK(TextOfFile(files.Open(0)) == "content of a");  // the mapped one is as it was
    CHECK(files.Check({}).replaced.empty());
  }
  SECTION("a file that nobody has read") {
    fs::remove(folder.dir / "sub/c");
    CHECK(files.Check({}).damaged.empty());
  }
}

TEST_CASE("an index that is written to while it is in use is damaged", "[indexed_files]") {
  const FolderOfFiles folder;
  const IndexedFiles files = folder.Open();
  std::fstream(folder.dir / "index", std::ios::in | std::ios::out) << "THE";
  MakeFileNewer(folder.dir / "index");
  const FileNews news = files.Check({});
  REQUIRE(news.damaged.size() == 1);
  CHECK(news.damaged[0].file == DamagedFile::kIndex);
  CHECK(news.damaged[0].name == (folder.dir / "index").string());
}

TEST_CASE("the first damage of a file is the one that is told", "[indexed_files]") {
  const FolderOfFiles folder;
  const IndexedFiles files = folder.Open();
  files.NoteDamage(1, "first");
  files.NoteDamage(1, "second");
  REQUIRE(files.Damages().size() == 1);
  CHECK(files.Damages()[0].what == "first");
  CHECK(files.Damages()[0].name == "b");
}

TEST_CASE("how a file differs from the index is said for people", "[indexed_files]") {
  const FolderOfFiles folder;
  const auto difference = [&](const char* name, std::uint64_t size, const std::string& content) {
    return DifferenceFromIndex(folder.dir / name, size, Xxh3(content));
  };
  CHECK(difference("a", 12, "content of a").empty());
  CHECK(difference("a", 11, "content of a") == "has 12 bytes, expected 11");
  CHECK_THAT(difference("a", 12, "content of b"),
             Contains("has digest " + Xxh3(std::string("content of a")).ToHex()));
  CHECK_FALSE(difference("none", 12, "content of a").empty());
  std::ofstream(folder.dir / "empty") << "";
  CHECK(difference("empty", 0, "").empty());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(_GLIBCXX_TSAN)
TEST_CASE("a read of bytes of an indexed file that are gone is known as damage",
          "[indexed_files]") {
  InstallSigbusGuard();
  FolderOfFiles folder;
  const std::string content(8192, 'x');
  std::ofstream(folder.dir / "a") << content;
  folder.files[0] = {"a", content.size(), Xxh3(content), *IdentifyFile(folder.dir / "a")};
  const IndexedFiles files = folder.Open();
  const MappedFile* const file = *files.Open(0);
  fs::resize_file(folder.dir / "a", 4096);
  const volatile std::byte* const gone = file->bytes().data() + 8000;
  CHECK(*gone == std::byte{0});
  REQUIRE(files.Damages().size() == 1);
  CHECK_THAT(files.Damages()[0].what, Contains("cannot be read any more"));
}
#endif

}  // namespace
}  // namespace millrace
