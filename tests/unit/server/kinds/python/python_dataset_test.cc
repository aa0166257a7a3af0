#include "server/kinds/python/python_dataset.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "server/catalog/product_kinds.h"
#include "server/kinds/python/python_kind.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

void Write(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

Digest128 DigestOf(const fs::path& dir) { return PythonDataset::OfFolder(dir).value()->digest(); }

TEST_CASE("a plugin is a dataset whose digest is that of its files' contents", "[python]") {
  const TempDir dir;
  Write(dir / "speech.py", "import numpy\n");
  Write(dir / "parts/more.py", "1\n");
  const auto plugin = PythonDataset::OfPlugin(dir.path(), "speech").value();
  CHECK(plugin->kind() == "python");
  CHECK(plugin->is_plugin());
  CHECK(plugin->file_count() == 2);
  CHECK(plugin->Files()[0].name == "parts/more.py");
  CHECK(plugin->Files()[1].size == 13);
  fs::last_write_time(dir / "speech.py", fs::file_time_type::clock::now() - std::chrono::hours(5));
  CHECK(PythonDataset::OfPlugin(dir.path(), "speech").value()->digest() == plugin->digest());
  Write(dir / "speech.py", "import numpy#");
  CHECK(PythonDataset::OfPlugin(dir.path(), "speech").value()->digest() != plugin->digest());
}

TEST_CASE("a plugin without its module names those that there are", "[python]") {
  const TempDir dir;
  Write(dir / "speech.py", "");
  const auto missing = PythonDataset::OfPlugin(dir.path(), "text");
  CHECK(missing.status().code() == StatusCode::kNotFound);
  CHECK_THAT(missing.status().message(), Contains("text.py") && Contains("its modules are speech"));
}

TEST_CASE("a folder for a plugin is known by names, sizes and times of its files", "[python]") {
  const TempDir dir;
  Write(dir / "a.wav", "12345");
  Write(dir / "b/c.wav", "123");
  const auto folder = PythonDataset::OfFolder(dir.path()).value();
  CHECK_FALSE(folder->is_plugin());
  CHECK_FALSE(folder->can_exclude_files());
  CHECK(folder->file_count() == 2);
  CHECK(folder->Files()[0].name == "a.wav");
  CHECK(folder->Files()[1].name == "b/c.wav");
  const Digest128 before = folder->digest();
  CHECK(DigestOf(dir.path()) == before);
  const fs::file_time_type time = fs::last_write_time(dir / "a.wav");
  fs::last_write_time(dir / "a.wav", time + std::chrono::seconds(1));
  const Digest128 touched = DigestOf(dir.path());
  CHECK(touched != before);
  fs::last_write_time(dir / "a.wav", time);
  CHECK(DigestOf(dir.path()) == before);
  fs::rename(dir / "b/c.wav", dir / "b/d.wav");
  CHECK(DigestOf(dir.path()) != before);
  fs::rename(dir / "b/d.wav", dir / "b/c.wav");
  Write(dir / "more.wav", "");
  CHECK(DigestOf(dir.path()) != before);
}

TEST_CASE("a folder's digest does not depend on where it lies, or on what is remembered of it",
          "[python]") {
  const TempDir dir;
  Write(dir / "one/a.wav", "12345");
  const Digest128 before = DigestOf(dir / "one");
  fs::rename(dir / "one", dir / "two");
  CHECK(DigestOf(dir / "two") == before);
  Write(dir / "two/.millrace.columns", "x");
  CHECK(DigestOf(dir / "two") == before);
}

TEST_CASE("names of files cannot be mistaken for one another", "[python]") {
  // Without lengths or ends, a name could pass for a name and a stamp.
  const TempDir dir;
  Write(dir / "a/x\ny", "1");
  Write(dir / "b/x", "1");
  Write(dir / "b/y", "1");
  CHECK(DigestOf(dir / "a") != DigestOf(dir / "b"));
}

TEST_CASE("a folder that is not there is an error", "[python]") {
  const TempDir dir;
  CHECK(PythonDataset::OfFolder(dir / "nothing").status().code() == StatusCode::kNotFound);
  Write(dir / "file", "");
  CHECK_FALSE(PythonDataset::OfFolder(dir / "file").ok());
}

TEST_CASE("no folder is one for plugins unless it is told", "[python][kinds]") {
  const TempDir dir;
  Write(dir / "speech.py", "");
  const DatasetKinds kinds = ProductKinds();
  CHECK_THAT(kinds.Find(dir.path(), "").status().message(), Contains("python:DIR"));
  CHECK(kinds.Find(dir.path(), "python").value()->name() == "python");
  const auto kind = MakePythonKind(nullptr);
  DatasetOpenOptions options;
  options.id = "data";
  const auto opened = kind->Open(dir.path(), options);
  REQUIRE(opened.status.ok());
  CHECK(opened.dataset->digest() == DigestOf(dir.path()));
  options.id = "plugin:speech";
  const auto plugin = kind->Open(dir.path(), options);
  REQUIRE(plugin.status.ok());
  CHECK(plugin.dataset->digest() != opened.dataset->digest());
  options.id = "plugin:text";
  CHECK(kind->Open(dir.path(), options).status.code() == StatusCode::kNotFound);
}

TEST_CASE("a folder for a plugin is inspected and warmed, and cannot be verified",
          "[python][kinds]") {
  const TempDir dir;
  Write(dir / "a.wav", "12345");
  Write(dir / "b/c.wav", "123");
  const auto kind = MakePythonKind(nullptr);
  const std::string told = kind->Inspect(dir.path(), {}).value();
  CHECK_THAT(told, Contains("files            2\n") && Contains("bytes            8\n"));
  CHECK(kind->Index(dir.path(), {}).value() == told);
  const DatasetListing listing = kind->FilesToWarm(dir.path()).value();
  CHECK(listing.names == std::vector<std::string>{"a.wav", "b/c.wav"});
  CHECK(listing.bad.empty());
  CHECK_THAT(kind->Verify(dir.path(), {}).status().message(), Contains("read by a plugin alone"));
}

}  // namespace
}  // namespace millrace::test
