// Bad files are named with a reason, and never cause a crash.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/kinds/coq/index/index_builder.h"
#include "server/kinds/coq/scan/file_scanner.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::FixtureFile;
using test::SampleFile;
using test::TempDir;

// The bad files of a folder that cannot be indexed, each with its reason.
std::vector<BadFile> BadFilesOf(const fs::path& dir) {
  std::vector<BadFile> bad;
  const Result<IndexReport> report = BuildIndex(dir, dir / "index", {}, &bad);
  INFO(report.status().ToString());
  REQUIRE(report.status().code() == StatusCode::kDataLoss);
  for (const BadFile& file : bad) {
    CHECK(report.status().message().find(file.ToString()) != std::string::npos);
  }
  CHECK_FALSE(fs::exists(dir / "index"));
  CHECK_FALSE(fs::exists(dir / "index.tmp"));
  return bad;
}

// The reason why one file among good ones is bad.
std::string ReasonOf(const std::function<void(const fs::path& path)>& make) {
  const TempDir dir;
  test::WriteFixture(dir.path(), SampleFile("good.bin"));
  make(dir / "bad.bin");
  const std::vector<BadFile> bad = BadFilesOf(dir.path());
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].name == "bad.bin");
  return bad[0].reason;
}

std::string ReasonOfBytes(const std::vector<std::byte>& bytes) {
  return ReasonOf([&](const fs::path& path) { test::WriteBytes(path, bytes); });
}

// The reason why a file is bad after one thing in it was changed.
std::string ReasonOfChange(const std::function<void(FixtureFile&)>& change) {
  FixtureFile file = SampleFile("bad.bin", {"good.bin"});
  change(file);
  return ReasonOfBytes(test::Serialize(file));
}

using Catch::Contains;

TEST_CASE("a file that is cut off anywhere is bad", "[bad]") {
  const std::vector<std::byte> whole = test::Serialize(SampleFile("bad.bin"));
  for (std::size_t size = 1; size < whole.size(); size += size < 300 ? 1 : 97) {
    CHECK_THAT(ReasonOfBytes({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}),
               Contains("at byte"));
  }
}

TEST_CASE("an empty file is bad", "[bad]") { CHECK(ReasonOfBytes({}) == "is empty"); }

TEST_CASE("a file of zeros is bad", "[bad]") {
  CHECK_THAT(ReasonOfBytes(std::vector<std::byte>(4096)), Contains("at byte 8: the message ends"));
}

TEST_CASE("a file of ones is bad", "[bad]") {
  CHECK_THAT(ReasonOfBytes(std::vector<std::byte>(4096, std::byte{0xFF})), Contains("segment"));
}

TEST_CASE("bytes behind the message are bad", "[bad]") {
  std::vector<std::byte> bytes = test::Serialize(SampleFile("bad.bin"));
  bytes.resize(bytes.size() + 8);
  CHECK_THAT(ReasonOfBytes(bytes), Contains("the message ends here"));
}

TEST_CASE("another data version is bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& file) { file.version = 14; }),
             Contains("data version 14, expected 15"));
}


TEST_CASE("a link that leads nowhere is bad", "[bad]") {
  CHECK_THAT(ReasonOf([](const fs::path& path) { fs::create_symlink("nowhere", path); }),
             Contains("link"));
}

TEST_CASE("a file that may not be read is bad", "[bad]") {
  const TempDir dir;
  fs::permissions(dir.path(), fs::perms::all);
  test::WriteFixture(dir.path(), SampleFile("good.bin"));
  test::WriteFixture(dir.path(), SampleFile("bad.bin"));
  fs::permissions(dir / "bad.bin", fs::perms::none);
  const bool is_root = ::geteuid() == 0;
  if (is_root) REQUIRE(::seteuid(65534) == 0);
  std::vector<BadFile> bad;
  const Result<IndexReport> report = BuildIndex(dir.path(), dir / "index", {}, &bad);
  if (is_root) REQUIRE(::seteuid(0) == 0);
  CHECK(report.status().code() == StatusCode::kDataLoss);
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].name == "bad.bin");
  CHECK_THAT(bad[0].reason, Contains("Permission denied"));
}

TEST_CASE("a node's class that does not exist is bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& file) { file.nodes[9].tag = 26; }),
             Contains("at byte") && Contains("node 9 has class 26"));
}

TEST_CASE("an edge's label that does not exist is bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& file) { file.nodes[9].children[0].label = 44; }),
             Contains("at byte") && Contains("label 44"));
}

TEST_CASE("an edge to a dependency that does not exist is bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& file) {
               file.nodes[9].children[0].target = {2, 0};
             }),
             Contains("at byte") && Contains("dependency 2, but the file has 2"));
}

TEST_CASE("an edge behind the last node of its own file is bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& file) {
               file.nodes[9].children[0].target = {0, 10};
             }),
             Contains("at byte") && Contains("node 10 of this file, which has 10"));
}

TEST_CASE("an edge behind the last node of another file is bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& file) {
               file.nodes[9].children[0].target = {1, 10};
             }),
             Contains("at byte") && Contains("node 10 of good.bin, which has 10"));
}

TEST_CASE("a node's edges behind the last edge are bad", "[bad]") {
  FixtureFile file = SampleFile("bad.bin");
  std::vector<std::byte> bytes = test::Serialize(file);
  // The node with identity 109 is the last one. Its first word comes before its identity.
  const std::int64_t identity = 109;
  std::vector<std::byte> pattern(8);
  std::memcpy(pattern.data(), &identity, 8);
  const auto at = std::search(bytes.begin(), bytes.end(), pattern.begin(), pattern.end());
  REQUIRE(at != bytes.end());
  *(at - 4) = std::byte{200};
  CHECK_THAT(ReasonOfBytes(bytes), Contains("at byte") && Contains("node 9 has edges 200 to 201"));
}

TEST_CASE("a context, argument or root outside the dataset is bad", "[bad]") {
  const auto outcome = [](FixtureFile& file) -> test::FixtureOutcome& {
    return file.definitions[4].steps[1].outcomes[0];
  };
  CHECK_THAT(ReasonOfChange([&](FixtureFile& f) {
               outcome(f).context[0] = {0, 10};
             }),
             Contains("node 10 of this file"));
  CHECK_THAT(ReasonOfChange([&](FixtureFile& f) {
               outcome(f).context[0] = {9, 1};
             }),
             Contains("step 1: outcome 0: the context refers to dependency 9"));
  CHECK_THAT(ReasonOfChange([&](FixtureFile& f) {
               outcome(f).arguments[0] = {1, 99};
             }),
             Contains("node 99 of good.bin"));
  CHECK_THAT(ReasonOfChange([&](FixtureFile& f) {
               outcome(f).arguments[0] = {5, 0};
             }),
             Contains("an argument refers to dependency 5"));
  CHECK_THAT(ReasonOfChange([&](FixtureFile& f) {
               outcome(f).root = {5, 0};
             }),
             Contains("the root refers to dependency 5"));
  // Steps of an unknown tactic give no examples, but they are checked too.
  CHECK_THAT(ReasonOfChange([&](FixtureFile& f) {
               f.definitions[4].steps[2].outcomes[0].context[0] = {5, 0};
             }),
             Contains("step 2: the context refers to dependency 5"));
}

TEST_CASE("links of definitions that lead to no definition are bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[3].previous = 6; }),
             Contains("definition node 3: `previous` is node 6"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[3].previous = 11; }),
             Contains("`previous` is node 11"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[5].discharged = 6; }),
             Contains("`discharged` is node 6"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) {
               f.definitions[5].discharged.reset();
               f.definitions[5].substituted = test::FixtureRef{7, 0};
             }),
             Contains("`substituted` refers to dependency 7"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[1].cluster = 7; }),
             Contains("cluster's representative is node 7"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.representative = 6; }),
             Contains("the file's representative is node 6"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.representative = 4000; }),
             Contains("the file's representative is node 4000"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[4].external_previous = {0}; }),
             Contains("`externalPrevious` names dependency 0"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[4].external_previous = {2}; }),
             Contains("`externalPrevious` names dependency 2"));
}

TEST_CASE("a chain of previous definitions that comes back to itself is bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[2].previous = 4; }),
             Contains("comes back to itself"));
}

TEST_CASE("a cluster that is not one chain is bad", "[bad]") {
  // Definition 1 is taken out of the chain 0, 1, 2.
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[0].previous = 2; }),
             Contains("cluster"));
  // The same, but definition 1 comes before definition 0 in the file's list of definitions.
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) {
               f.definitions[0].previous = 2;
               std::swap(f.definitions[0], f.definitions[1]);
             }),
             Contains("cluster"));
  // The representative is a member of another cluster.
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[2].cluster = 1; }),
             Contains("cluster"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) {
               f.definitions[2].cluster = 1;
               std::swap(f.definitions[0], f.definitions[2]);
             }),
             Contains("named as the representative of a cluster, but names 0 itself"));
}

TEST_CASE("a list of definitions that is not the definitions is bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) {
               f.definition_list = {{0, 1, 2, 3, 4}};
             }),
             Contains("has 5 entries, but 6 nodes"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) {
               f.definition_list = {{0, 1, 2, 3, 4, 4}};
             }),
             Contains("names node 4 twice"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) {
               f.definition_list = {{0, 1, 2, 3, 4, 6}};
             }),
             Contains("names node 6, which is not a definition"));
}

TEST_CASE("names that are not UTF-8 are bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[3].name = "\xC3("; }),
             Contains("name is not UTF-8"));
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.definitions[4].steps[1].base_text = "\xFF"; }),
             Contains("`baseText` of its tactic is not UTF-8"));
}

TEST_CASE("a file that says it is another one is bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.own_name = "good.bin"; }),
             Contains("first dependency"));
}

TEST_CASE("a dependency that is not in the dataset is bad", "[bad]") {
  CHECK_THAT(ReasonOfChange([](FixtureFile& f) { f.dependencies.push_back("gone.bin"); }),
             Contains("depends on") && Contains("gone.bin"));
}

TEST_CASE("every file on a cycle of dependencies is bad, those that lead to it are not", "[bad]") {
  const TempDir dir;
  test::WriteFixture(dir.path(), SampleFile("a.bin", {"b.bin"}));
  test::WriteFixture(dir.path(), SampleFile("b.bin", {"c.bin"}));
  test::WriteFixture(dir.path(), SampleFile("c.bin", {"a.bin"}));
  test::WriteFixture(dir.path(), SampleFile("d.bin", {"a.bin"}));
  test::WriteFixture(dir.path(), SampleFile("e.bin"));
  std::vector<std::string> names;
  for (const BadFile& file : BadFilesOf(dir.path())) {
    CHECK_THAT(file.reason, Contains("cycle"));
    names.push_back(file.name);
  }
  CHECK(names == std::vector<std::string>{"a.bin", "b.bin", "c.bin"});
}

TEST_CASE("all bad files are listed, and no file is blamed for another", "[bad]") {
  const TempDir dir;
  test::WriteFixture(dir.path(), SampleFile("a.bin"));
  test::WriteBytes(dir / "x/empty.bin", {});
  test::WriteBytes(dir / "zeros.bin", std::vector<std::byte>(64));
  fs::create_directory(dir / "folder.bin");
  test::WriteFixture(dir.path(), SampleFile("b.bin", {"zeros.bin"}));
  test::WriteFixture(dir.path(), SampleFile("c.bin", {"folder.bin"}));
  std::vector<std::string> names;
  for (const BadFile& file : BadFilesOf(dir.path())) names.push_back(file.name);
  std::sort(names.begin(), names.end());
  // A folder is no file, whatever its name.
  CHECK(names == std::vector<std::string>{"c.bin", "x/empty.bin", "zeros.bin"});
}

TEST_CASE("folders that hold no dataset are named", "[bad]") {
  const TempDir dir;
  CHECK(BuildIndex(dir / "nowhere", dir / "i", {}).status().code() == StatusCode::kNotFound);
  CHECK(BuildIndex(dir.path(), dir / "i", {}).status().code() == StatusCode::kInvalidArgument);
  test::WriteBytes(dir / "file", std::vector<std::byte>(8));
  CHECK(BuildIndex(dir / "file", dir / "i", {}).status().code() == StatusCode::kInvalidArgument);
}

// The words of a file that has one segment.
std::vector<std::uint64_t> WordsOfOneSegment() {
  FixtureFile file = SampleFile("bad.bin");
  file.segment_words = 4096;
  const std::vector<std::byte> bytes = test::Serialize(file);
  std::vector<std::uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  REQUIRE((words[0] & 0xFFFFFFFF) == 0);
  return words;
}

Status ScanWords(const fs::path& dir, const std::vector<std::uint64_t>& words) {
  const auto bytes = std::as_bytes(std::span(words));
  test::WriteBytes(dir / "bad.bin", {bytes.begin(), bytes.end()});
  FileSummary summary;
  FileBlob blob;
  return ScanFile(dir, "bad.bin", 0, {{"bad.bin", 0}}, summary, blob);
}

TEST_CASE("lists that claim a billion elements of no size are refused, not walked", "[bad]") {
  const TempDir dir;
  const std::vector<std::uint64_t> good = WordsOfOneSegment();
  int lists = 0;
  for (std::size_t i = 1; i < good.size(); ++i) {
    // This selects pointers to lists of structs (https://capnproto.org/encoding.html#lists): type
    // 1, size 7.
    if ((good[i] & 3) != 1 || ((good[i] >> 32) & 7) != 7) continue;
    const std::size_t tag = i + 1 + (good[i] >> 2 & 0x3FFFFFFF);
    if (tag >= good.size() || (good[tag] & 3) != 0) continue;
    std::vector<std::uint64_t> words = good;
    // The list claims to have no words. Its tag claims that it has half a billion elements.
    words[i] &= 0x00000007FFFFFFFF;
    words[tag] = std::uint64_t{0x1FFFFFFF} << 2;
    const Status status = ScanWords(dir.path(), words);
    INFO("list " << i << ": " << status.ToString());
    CHECK(status.code() == StatusCode::kDataLoss);
    ++lists;
  }
  CHECK(lists >= 5);
}

TEST_CASE("a message whose pointers overlap is read in bounded time", "[bad][flip]") {
  const TempDir dir;
  const std::vector<std::uint64_t> good = WordsOfOneSegment();
  rc::prop("words copied over others give an index or an error", [&] {
    std::vector<std::uint64_t> words = good;
    const auto place = rc::gen::inRange<std::size_t>(1, good.size());
    for (int n = *rc::gen::inRange(1, 12); n > 0; --n) words[*place] = good[*place];
    const Status status = ScanWords(dir.path(), words);
    RC_ASSERT(status.ok() || status.code() == StatusCode::kDataLoss);
  });
}

TEST_CASE("every flipped byte of a file is survived: an index or a named error", "[bad][flip]") {
  const std::vector<std::byte> good = test::Serialize(SampleFile("bad.bin"));
  const TempDir dir;
  const NameTable names = {{"bad.bin", 0}};
  std::size_t refused = 0;
  for (const std::byte mask : {std::byte{0x01}, std::byte{0x80}, std::byte{0xFF}}) {
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::vector<std::byte> flipped = good;
      flipped[i] ^= mask;
      test::WriteBytes(dir / "bad.bin", flipped);
      FileSummary summary;
      FileBlob blob;
      const Status status = ScanFile(dir.path(), "bad.bin", 0, names, summary, blob);
      INFO("byte " << i << ": " << status.ToString());
      if (!status.ok()) {
        REQUIRE(status.code() == StatusCode::kDataLoss);
        REQUIRE_FALSE(status.message().empty());
        ++refused;
      } else if (i % 16 == 0) {
        // If a file is accepted, its index must be readable. This is a sample, because every index
        // waits for the disk.
        REQUIRE(BuildIndex(dir.path(), dir / "index", {}).ok());
        REQUIRE(DatasetIndex::Open(dir / "index").ok());
      }
    }
  }
  // Most bytes are pointers, numbers or classes, where a change shows. Texts and identities may
  // hold anything.
  CHECK(refused > good.size());
}

}  // namespace
}  // namespace millrace
