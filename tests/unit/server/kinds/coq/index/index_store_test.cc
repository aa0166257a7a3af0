// The place of an index, and the cases in which it is built again.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "server/kinds/coq/index/index_format.h"
#include "server/kinds/coq/index/index_store.h"
#include "server/kinds/coq/verify.h"
#include "tests/unit/server/kinds/coq/index/index_store_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::Open;
using test::Opened;
using test::SampleFile;
using test::TempDir;
using test::Touch;
using test::WriteSamples;

TEST_CASE("a missing index is built in the dataset's folder, and said", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened first = Open(dir.path());
  REQUIRE(first.index.ok());
  CHECK(first.outcome.built);
  CHECK(first.outcome.file == dir / ".millrace.index");
  CHECK(first.outcome.report.files == 2);
  CHECK(first.outcome.report.nodes == 20);
  CHECK(first.outcome.report.proof_states == 6);
  CHECK(first.logger->Has("building the index"));
}

TEST_CASE("an index that fits is opened as it is", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  const Opened second = Open(dir.path());
  REQUIRE(second.index.ok());
  CHECK_FALSE(second.outcome.built);
  CHECK_FALSE(second.logger->Has("index"));
}

TEST_CASE("force builds an index that fits", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  IndexOptions options;
  options.force = true;
  CHECK(Open(dir.path(), options).outcome.built);
}

TEST_CASE("an index is built again where a file has another size", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened before = Open(dir.path());
  test::FixtureFile file = SampleFile("a.bin");
  file.nodes.push_back({.tag = 5});
  file.representative.reset();
  for (auto& d : file.definitions) d.discharged.reset();
  test::WriteFixture(dir.path(), file);
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.built);
  CHECK(after.logger->Has("a.bin has"));
  CHECK((*after.index)->digest() != (*before.index)->digest());
}

TEST_CASE("an index is built again where a file came or went", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  test::WriteFixture(dir.path(), SampleFile("c.bin"));
  CHECK(Open(dir.path()).outcome.built);
  fs::remove(dir / "c.bin");
  const Opened after = Open(dir.path());
  CHECK(after.outcome.built);
  CHECK(after.logger->Has("c.bin is gone"));
}

TEST_CASE("an index is built again where contents changed and the size did not", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  test::FixtureFile file = SampleFile("a.bin");
  file.nodes[9].identity = 12345;
  test::WriteFixture(dir.path(), file);
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.built);
  CHECK(after.logger->Has("a.bin has other contents"));
}

TEST_CASE("an index is renewed, not built, where only times changed", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  const Opened before = Open(dir.path());
  Touch(dir / "a.bin");
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK_FALSE(after.outcome.built);
  CHECK(after.logger->Has("index renewed"));
  CHECK(after.logger->Has("hashed_files=1"));
  CHECK((*after.index)->Verify().ok());
  CHECK((*after.index)->digest() == (*before.index)->digest());
  CHECK_FALSE(Open(dir.path()).logger->Has("renewed"));
}

TEST_CASE("an index that another host wrote is believed once all files are hashed",
          "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  std::vector<std::byte> bytes = test::ReadBytes(dir / kIndexFileName);
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::vector<SectionEntry> table(header.section_count);
  std::memcpy(table.data(), bytes.data() + sizeof(header), table.size() * sizeof(SectionEntry));
  ++header.host_id_low;
  header.checksum = HeaderChecksum(header, table);
  std::memcpy(bytes.data(), &header, sizeof(header));
  test::WriteBytes(dir / kIndexFileName, bytes);
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK_FALSE(after.outcome.built);
  CHECK(after.logger->Has("hashed_files=2"));
}

TEST_CASE("a damaged index is built again", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  std::vector<std::byte> bytes = test::ReadBytes(dir / kIndexFileName);
  bytes[bytes.size() / 2] ^= std::byte{1};
  test::WriteBytes(dir / kIndexFileName, bytes);
  const Opened after = Open(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.built);
  CHECK(after.logger->Has("checksum"));
}

TEST_CASE("the index of a folder that cannot be written lies in the cache", "[index_store]") {
  const TempDir dir;
  const TempDir cache;
  WriteSamples(dir);
  constexpr auto kReadOnly = static_cast<fs::perms>(0555);
  fs::permissions(dir.path(), kReadOnly);
  fs::permissions(cache.path(), fs::perms::all);
  IndexOptions options;
  options.cache_dir = cache.path();
  const bool is_root = ::geteuid() == 0;
  if (is_root) REQUIRE(::seteuid(65534) == 0);
  const Opened first = Open(dir.path(), options);
  const Opened second = Open(dir.path() / ".", options);
  if (is_root) REQUIRE(::seteuid(0) == 0);
  fs::permissions(dir.path(), fs::perms::owner_all);
  INFO(first.index.status().ToString());
  REQUIRE(first.index.ok());
  CHECK(first.outcome.built);
  CHECK(first.outcome.file.string().starts_with(cache.path().string()));
  CHECK_FALSE(fs::exists(dir / kIndexFileName));
  REQUIRE(second.index.ok());
  CHECK_FALSE(second.outcome.built);
}

TEST_CASE("an index lies in the file that was asked for", "[index_store]") {
  const TempDir dir;
  const TempDir elsewhere;
  WriteSamples(dir);
  IndexOptions options;
  options.index_file = elsewhere / "my.index";
  CHECK(Open(dir.path(), options).outcome.file == elsewhere / "my.index");
  CHECK_FALSE(fs::exists(dir / kIndexFileName));
  options.index_file = elsewhere / "no/folder/my.index";
  CHECK(Open(dir.path(), options).index.status().code() == StatusCode::kNotFound);
}

TEST_CASE("a dataset that turns bad leaves its index and lists the bad files", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  REQUIRE(Open(dir.path()).index.ok());
  const std::vector<std::byte> old = test::ReadBytes(dir / kIndexFileName);
  test::WriteBytes(dir / "a.bin", {});
  std::vector<BadFile> bad;
  IndexOptions options;
  options.bad = &bad;
  CHECK(Open(dir.path(), options).index.status().code() == StatusCode::kDataLoss);
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].name == "a.bin");
  CHECK(test::ReadBytes(dir / kIndexFileName) == old);
}

TEST_CASE("verify names every file that differs, is gone, or is not indexed", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  test::WriteFixture(dir.path(), SampleFile("same.bin"));
  test::WriteFixture(dir.path(), SampleFile("gone.bin"));
  const Opened opened = Open(dir.path());
  REQUIRE(opened.index.ok());
  CHECK(VerifyDataset(dir.path(), **opened.index, {}).ok());

  std::vector<std::byte> bytes = test::ReadBytes(dir / "a.bin");
  bytes.back() ^= std::byte{1};
  const auto time = fs::last_write_time(dir / "a.bin");
  test::WriteBytes(dir / "a.bin", bytes);
  fs::last_write_time(dir / "a.bin", time);
  fs::remove(dir / "gone.bin");
  test::WriteFixture(dir.path(), SampleFile("new.bin"));
  std::vector<BadFile> bad;
  CHECK(VerifyDataset(dir.path(), **opened.index, {}, &bad).code() == StatusCode::kDataLoss);
  std::vector<std::string> names;
  for (const BadFile& file : bad) names.push_back(file.name);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"a.bin", "gone.bin", "new.bin"});
}

TEST_CASE("an index that is only looked for is not built", "[index_store]") {
  const TempDir dir;
  WriteSamples(dir);
  CHECK(FindIndex(dir.path(), {}).status().code() == StatusCode::kNotFound);
  REQUIRE(Open(dir.path()).index.ok());
  fs::remove(dir / "a.bin");
  CHECK(FindIndex(dir.path(), {}).ok());
}

}  // namespace
}  // namespace millrace
