#include "server/plugin/files/plugin_files.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace millrace {
namespace {

namespace fs = std::filesystem;

using Catch::Matchers::Contains;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "millrace.files.XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  void Write(const std::string& name, const std::string& content) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  fs::path path_;
};

std::string Read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST_CASE("a plugin's files are all in its folder, but for what Python makes itself",
          "[plugin_files]") {
  const Folder folder;
  folder.Write("p/m.py", "x");
  folder.Write("p/data/words.txt", "y");
  folder.Write("p/data/__pycache__/m.pyc", "z");
  folder.Write("p/old.pyc", "z");
  folder.Write("p/.git/config", "z");
  folder.Write("elsewhere.txt", "linked");
  fs::create_symlink(folder / "elsewhere.txt", folder / "p/link.txt");
  const auto files = ReadFileSet(folder / "p");
  REQUIRE(files.ok());
  REQUIRE(files->files.size() == 3);
  CHECK(files->files[0].name == "data/words.txt");
  CHECK(files->files[1].name == "link.txt");
  CHECK(files->files[1].content == "linked");
  CHECK(files->files[2].name == "m.py");
}

TEST_CASE("the digest of files depends on names, contents and where they end", "[plugin_files]") {
  const FileSet files{{{"a", "bc"}, {"d", ""}}};
  CHECK(files.Digest() == FileSet{{{"a", "bc"}, {"d", ""}}}.Digest());
  CHECK(files.Digest() != FileSet{{{"ab", "c"}, {"d", ""}}}.Digest());
  CHECK(files.Digest() != FileSet{{{"a", "bcd"}}}.Digest());
  CHECK(files.Digest() != FileSet{{{"a", "bd"}, {"d", ""}}}.Digest());
  CHECK(files.Digest().ToHex() == "51d6056ce08f3c5928e4fd4fa47a4cd8");
}

TEST_CASE("files that are too large are refused with the largest of them", "[plugin_files]") {
  const Folder folder;
  folder.Write("p/m.py", "x");
  for (int i = 0; i < 6; ++i) folder.Write("p/f" + std::to_string(i), std::string(100 + i, 'x'));
  CHECK(ReadFileSet(folder / "p", 616).ok());
  const Status status = ReadFileSet(folder / "p", 615).status();
  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK_THAT(status.message(),
             Contains("has 7 files of 616 bytes together; a plugin may have 615 bytes. The largest "
                      "are f5 (105 bytes), f4 (104 bytes), f3 (103 bytes), f2 (102 bytes), f1 (101 "
                      "bytes). Put the module in a folder of its own"));
}

TEST_CASE("a folder that is not there, or leads back to itself, is refused", "[plugin_files]") {
  const Folder folder;
  CHECK(ReadFileSet(folder / "none").status().code() == StatusCode::kNotFound);
  folder.Write("p/m.py", "x");
  fs::create_directory_symlink(folder / "p", folder / "p/again");
  CHECK_THAT(ReadFileSet(folder / "p").status().message(), Contains("does a link lead back?"));
}

TEST_CASE("a module is a file or a package", "[plugin_files]") {
  CHECK(CheckHasModule({{{"m.py", ""}}}, "m").ok());
  CHECK(CheckHasModule({{{"m/__init__.py", ""}}}, "m").ok());
  CHECK(CheckHasModule({{{"a.py", ""}, {"b/__init__.py", ""}, {"c/m.py", ""}}}, "m").message() ==
        "has neither m.py nor m/__init__.py; its modules are a, b");
  CHECK(CheckHasModule({{{"m.txt", ""}}}, "m").message() ==
        "has neither m.py nor m/__init__.py; there is no module at all");
}

TEST_CASE("files are stored once, under their digest", "[plugin_files]") {
  const Folder folder;
  const FileSet files{{{"a.py", "one"}, {"b/c.py", "two"}}};
  const auto stored = StoreFileSet(files, folder / "copies");
  REQUIRE(stored.ok());
  CHECK(*stored == folder / "copies" / files.Digest().ToHex());
  CHECK(Read(*stored / "b/c.py") == "two");
  const auto written = fs::last_write_time(*stored / "a.py");
  CHECK(*StoreFileSet(files, folder / "copies") == *stored);
  CHECK(fs::last_write_time(*stored / "a.py") == written);
  CHECK(NamesIn(folder / "copies").size() == 1);
  const FileSet changed{{{"a.py", "new"}, {"b/c.py", "two"}}};
  CHECK(*StoreFileSet(changed, folder / "copies") != *stored);
  CHECK(Read(*stored / "a.py") == "one");
}

TEST_CASE("a stored folder that is not whole is replaced", "[plugin_files]") {
  const Folder folder;
  const FileSet files{{{"a.py", "one"}, {"b.py", "two"}}};
  const fs::path stored = *StoreFileSet(files, folder / "copies");
  SECTION("a file is missing") { fs::remove(stored / "a.py"); }
  SECTION("a file is another") {
    fs::remove(stored / "a.py");
    folder.Write("copies/" + files.Digest().ToHex() + "/a.py", "xxx");
  }
  SECTION("a file more") { folder.Write("copies/" + files.Digest().ToHex() + "/c.py", ""); }
  SECTION("it is no folder") {
    fs::remove_all(stored);
    folder.Write("copies/" + files.Digest().ToHex(), "x");
  }
  REQUIRE(StoreFileSet(files, folder / "copies").ok());
  const auto read = ReadFileSet(stored);
  REQUIRE(read.ok());
  CHECK(read->Digest() == files.Digest());
  CHECK(NamesIn(folder / "copies").size() == 1);
}

TEST_CASE("several may store the same files at the same time", "[plugin_files]") {
  const Folder folder;
  FileSet files;
  for (int i = 10; i < 60; ++i) files.files.push_back({std::to_string(i), std::string(1000, 'x')});
  std::vector<std::string> errors(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& error : errors) {
      threads.emplace_back([&] {
        for (int turn = 0; turn < 5; ++turn) {
          const auto stored = StoreFileSet(files, folder / "copies");
          if (!stored.ok()) error = stored.status().message();
          if (stored.ok() && ReadFileSet(*stored)->Digest() != files.Digest()) error = "not whole";
        }
      });
    }
  }
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(NamesIn(folder / "copies").size() == 1);
}

}  // namespace
}  // namespace millrace
