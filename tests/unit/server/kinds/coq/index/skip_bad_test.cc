// Indexing without bad files: which files are left out, and why. The rest is the same dataset as
// that of a folder without these files.
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <unistd.h>

#include <rapidcheck/catch.h>

#include "server/files/dataset_files.h"
#include "server/kinds/coq/index/index_format.h"
#include "server/kinds/coq/verify.h"
#include "tests/unit/server/kinds/coq/index/index_store_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::FixtureFile;
using test::Open;
using test::Opened;
using test::SampleFile;
using test::TempDir;

IndexOptions SkipBad() {
  IndexOptions options;
  options.build.skip_bad = true;
  return options;
}

/// The digest, and the bytes of every section that does not depend on the host or on the files left
/// out.
std::map<std::uint32_t, std::vector<std::byte>> Contents(const fs::path& file) {
  const std::vector<std::byte> bytes = test::ReadBytes(file);
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::map<std::uint32_t, std::vector<std::byte>> sections;
  for (std::uint32_t s = 0; s < header.section_count; ++s) {
    SectionEntry entry;
    std::memcpy(&entry, bytes.data() + sizeof(header) + s * sizeof(entry), sizeof(entry));
    if (entry.section == IndexSection::kHostFiles || entry.section >= IndexSection::kLeftOut) {
      continue;
    }
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(entry.offset);
    const auto size = static_cast<std::ptrdiff_t>(entry.count * entry.entry_bytes);
    sections[static_cast<std::uint32_t>(entry.section)] = {begin, begin + size};
    sections[1000 + static_cast<std::uint32_t>(entry.section)].resize(entry.offset);
  }
  const auto digest = std::as_bytes(std::span(&header.dataset_digest_high, 2));
  sections[0] = {digest.begin(), digest.end()};
  return sections;
}

/// The name and reason of each file that an index leaves out, one on each line.
std::vector<std::string> LeftOut(const DatasetIndex& index) {
  std::vector<std::string> lines;
  for (const LeftOutRecord& file : index.left_out()) {
    lines.push_back(Escaped(index.left_out_name(file)) + ": " +
                    std::string(index.left_out_reason(file)));
  }
  return lines;
}

std::vector<std::string> LeftOutNames(const DatasetIndex& index) {
  std::vector<std::string> names;
  for (const LeftOutRecord& file : index.left_out()) {
    names.emplace_back(index.left_out_name(file));
  }
  return names;
}

void CutOff(const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }

/// A folder of five files: b needs a, c needs b, and the other two need no other file.
void WriteChain(const TempDir& dir) {
  test::WriteFixture(dir.path(), SampleFile("a.bin"));
  test::WriteFixture(dir.path(), SampleFile("x/b.bin", {"a.bin"}));
  test::WriteFixture(dir.path(), SampleFile("c.bin", {"x/b.bin"}));
  test::WriteFixture(dir.path(), SampleFile("d.bin"));
  test::WriteFixture(dir.path(), SampleFile("x/e.bin", {"d.bin"}));
}

TEST_CASE("bad files are left out with all that need them, each with its reason", "[skip_bad]") {
  const TempDir dir;
  WriteChain(dir);
  CutOff(dir / "a.bin");
  const Opened opened = Open(dir.path(), SkipBad());
  REQUIRE(opened.index.ok());
  const auto lines = LeftOut(**opened.index);
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[0], Contains("a.bin: at byte"));
  CHECK(lines[1] == "c.bin: needs a.bin, which is bad, by way of x/b.bin");
  CHECK(lines[2] == "x/b.bin: needs a.bin, which is bad");
  CHECK((*opened.index)->files().size() == 2);
  CHECK(opened.outcome.report.files == 2);
  CHECK(opened.outcome.report.left_out_files == 3);
  for (const char* const name : {"a.bin", "c.bin", "x/b.bin"}) {
    CHECK(opened.logger->Has("file left out dataset=" + dir.path().string() +
                             " file=" + std::string(name) + " why="));
  }
  CHECK(VerifyDataset(dir.path(), **opened.index, {}).ok());
}

TEST_CASE("without being asked to leave them out, bad files are an error that says how to",
          "[skip_bad]") {
  const TempDir dir;
  WriteChain(dir);
  CutOff(dir / "a.bin");
  const Opened opened = Open(dir.path());
  CHECK(opened.index.status().code() == StatusCode::kDataLoss);
  CHECK_THAT(opened.index.status().message(), Contains("a.bin: at byte") && Contains("--skip-bad"));
  // An index that leaves out files is not used if all files are asked for.
  REQUIRE(Open(dir.path(), SkipBad()).index.ok());
  CHECK(Open(dir.path()).index.status().code() == StatusCode::kDataLoss);
}

TEST_CASE("where every file is bad or needs a bad one, there is no index", "[skip_bad]") {
  const TempDir dir;
  test::WriteSamples(dir);
  CutOff(dir / "a.bin");
  std::vector<BadFile> bad;
  IndexOptions options = SkipBad();
  options.bad = &bad;
  const Opened opened = Open(dir.path(), options);
  CHECK(opened.index.status().code() == StatusCode::kDataLoss);
  CHECK_THAT(opened.index.status().message(), Contains("no file is left") && Contains("a.bin"));
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].name == "a.bin");
  CHECK_FALSE(fs::exists(dir / kIndexFileName));
}

TEST_CASE("an index without bad files fits until one of them changes", "[skip_bad]") {
  const TempDir dir;
  WriteChain(dir);
  const std::vector<std::byte> good = test::ReadBytes(dir / "a.bin");
  CutOff(dir / "a.bin");
  REQUIRE(Open(dir.path(), SkipBad()).outcome.built);
  CHECK_FALSE(Open(dir.path(), SkipBad()).outcome.built);

  SECTION("a repaired file comes back with those that need it, and the others are not read again") {
    test::WriteBytes(dir / "a.bin", good);
    const Opened repaired = Open(dir.path(), SkipBad());
    CHECK(repaired.outcome.built);
    CHECK(repaired.outcome.report.unchanged_files == 2);
    CHECK((*repaired.index)->files().size() == 5);
    CHECK((*repaired.index)->left_out().empty());
  }
  SECTION("one that is as bad as before is left out as before") {
    test::Touch(dir / "a.bin");
    const Opened touched = Open(dir.path(), SkipBad());
    CHECK(touched.outcome.built);
    CHECK(touched.logger->Has("a.bin, which it leaves out, has changed"));
    CHECK((*touched.index)->left_out().size() == 3);
  }
  SECTION("one that is gone leaves those that needed it bad by themselves") {
    fs::remove(dir / "a.bin");
    const auto lines = LeftOut(**Open(dir.path(), SkipBad()).index);
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] == "c.bin: needs x/b.bin, which is bad");
    CHECK(lines[1] == "x/b.bin: depends on \"a.bin\", which is not in the dataset");
  }
  SECTION("another bad file is left out too") {
    CutOff(dir / "x/e.bin");
    const Opened more = Open(dir.path(), SkipBad());
    CHECK((*more.index)->left_out().size() == 4);
    CHECK((*more.index)->files().size() == 1);
  }
  SECTION("another host decides by itself, and hashes what it takes over") {
    std::vector<std::byte> bytes = test::ReadBytes(dir / kIndexFileName);
    IndexHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    std::vector<SectionEntry> table(header.section_count);
    std::memcpy(table.data(), bytes.data() + sizeof(header), table.size() * sizeof(SectionEntry));
    ++header.host_id_low;
    header.checksum = HeaderChecksum(header, table);
    std::memcpy(bytes.data(), &header, sizeof(header));
    test::WriteBytes(dir / kIndexFileName, bytes);
    const Opened there = Open(dir.path(), SkipBad());
    CHECK(there.outcome.built);
    CHECK(there.outcome.report.unchanged_files == 2);
    CHECK((*there.index)->left_out().size() == 3);
  }
}

TEST_CASE("an index that leaves nothing out is the same, whether that was asked for or not",
          "[skip_bad]") {
  const TempDir dir;
  test::WriteSamples(dir);
  REQUIRE(Open(dir.path()).outcome.built);
  const auto plain = test::ReadBytes(dir / kIndexFileName);
  CHECK_FALSE(Open(dir.path(), SkipBad()).outcome.built);
  IndexOptions again = SkipBad();
  again.force = true;
  REQUIRE(Open(dir.path(), again).outcome.built);
  CHECK(test::ReadBytes(dir / kIndexFileName) == plain);
}

TEST_CASE("an index of before there was a list of what is left out is still read", "[skip_bad]") {
  const TempDir dir;
  test::WriteSamples(dir);
  REQUIRE(Open(dir.path()).outcome.built);
  std::vector<std::byte> bytes = test::ReadBytes(dir / kIndexFileName);
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  REQUIRE(header.section_count == 19);
  header.section_count = 17;  // the last two sections are the list of files left out
  std::vector<SectionEntry> table(header.section_count);
  std::memcpy(table.data(), bytes.data() + sizeof(header), table.size() * sizeof(SectionEntry));
  header.checksum = HeaderChecksum(header, table);
  std::memcpy(bytes.data(), &header, sizeof(header));
  test::WriteBytes(dir / kIndexFileName, bytes);
  for (const IndexOptions& options : {IndexOptions{}, SkipBad()}) {
    const Opened opened = Open(dir.path(), options);
    REQUIRE(opened.index.ok());
    CHECK_FALSE(opened.outcome.built);
    CHECK((*opened.index)->left_out().empty());
  }
}

TEST_CASE("what is no file, and what needs it, is left out too", "[skip_bad]") {
  const TempDir dir;
  WriteChain(dir);
  fs::remove(dir / "a.bin");
  fs::create_directory(dir / "a.bin");
  fs::create_symlink("nowhere", dir / "f.bin");
  test::WriteFixture(dir.path(), SampleFile("g.bin", {"missing.bin"}));
  test::WriteFixture(dir.path(), SampleFile("bad\xFF\n.bin"));
  const Opened opened = Open(dir.path(), SkipBad());
  REQUIRE(opened.index.ok());
  const auto lines = LeftOut(**opened.index);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == "bad\\xff\\x0a.bin: the name is not UTF-8");
  CHECK(lines[1] == "c.bin: needs x/b.bin, which is bad");
  CHECK_THAT(lines[2], Contains("f.bin: ") && Contains("link"));
  CHECK(lines[3] == "g.bin: depends on \"missing.bin\", which is not in the dataset");
  CHECK(lines[4] == "x/b.bin: depends on \"a.bin\", which is not in the dataset");
  CHECK_FALSE(Open(dir.path(), SkipBad()).outcome.built);
}

TEST_CASE("files on a cycle are left out with those that need them", "[skip_bad]") {
  const TempDir dir;
  test::WriteFixture(dir.path(), SampleFile("a.bin", {"b.bin"}));
  test::WriteFixture(dir.path(), SampleFile("b.bin", {"a.bin"}));
  test::WriteFixture(dir.path(), SampleFile("c.bin", {"b.bin"}));
  test::WriteFixture(dir.path(), SampleFile("d.bin"));
  const Opened opened = Open(dir.path(), SkipBad());
  REQUIRE(opened.index.ok());
  const auto lines = LeftOut(**opened.index);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "a.bin: is on a cycle of dependencies of 2 files");
  CHECK(lines[2] == "c.bin: needs b.bin, which is bad");
}

TEST_CASE("a file that may not be read is tried again by whoever opens the index", "[skip_bad]") {
  if (::geteuid() != 0) return;  // only root can become another user
  const TempDir dir;
  fs::permissions(dir.path(), fs::perms::all);
  WriteChain(dir);
  fs::permissions(dir / "x/e.bin", fs::perms::none);
  REQUIRE(::seteuid(65534) == 0);
  const Opened denied = Open(dir.path(), SkipBad());
  const Opened again = Open(dir.path(), SkipBad());
  REQUIRE(::seteuid(0) == 0);
  REQUIRE(denied.index.ok());
  CHECK(LeftOutNames(**denied.index) == std::vector<std::string>{"x/e.bin"});
  CHECK_FALSE(again.outcome.built);
  const Opened allowed = Open(dir.path(), SkipBad());
  CHECK(allowed.outcome.built);
  CHECK((*allowed.index)->left_out().empty());
}

TEST_CASE("a reason is short, however long the names are", "[skip_bad]") {
  const TempDir dir;
  test::WriteFixture(dir.path(), SampleFile("a.bin"));
  test::WriteFixture(dir.path(), SampleFile("b.bin", {std::string(100000, '\x01')}));
  const Opened opened = Open(dir.path(), SkipBad());
  REQUIRE(opened.index.ok());
  REQUIRE((*opened.index)->left_out().size() == 1);
  CHECK((*opened.index)->left_out_reason((*opened.index)->left_out()[0]).size() <= 500);
}

TEST_CASE("what is left is the dataset of a folder without what is left out", "[skip_bad]") {
  rc::prop("with any dependencies, any bad files, from nothing or from an index of before", [] {
    const TempDir dir;
    const TempDir deleted;
    const auto count = *rc::gen::inRange(2, 9);
    std::vector<std::string> names;
    for (int f = 0; f < count; ++f) {
      // Names and sizes are in no order, so that a file's place depends on both and on the files
      // that it needs.
      const std::string name =
          std::string(*rc::gen::element("", "x/", "y/z/")) + std::to_string(97 * f % 10) + ".bin";
      std::vector<std::string> dependencies;
      for (const std::string& earlier : names) {
        if (*rc::gen::inRange(0, 3) == 0) dependencies.push_back(earlier);
      }
      FixtureFile file = SampleFile(name, dependencies);
      file.nodes.resize(file.nodes.size() + static_cast<std::size_t>(*rc::gen::inRange(0, 4)));
      test::WriteFixture(dir.path(), file);
      names.push_back(name);
    }
    const bool before = *rc::gen::arbitrary<bool>();
    if (before) RC_ASSERT(Open(dir.path()).index.ok());
    std::set<std::string> bad;
    for (const std::string& name : names) {
      if (*rc::gen::inRange(0, 4) == 0) bad.insert(name);
    }
    for (const std::string& name : bad) CutOff(dir / name);

    const Opened opened = Open(dir.path(), SkipBad());
    fs::copy(dir.path(), deleted.path(), fs::copy_options::recursive);
    fs::remove(deleted / kIndexFileName);
    if (!opened.index.ok()) return;  // nothing is left; another test covers this
    for (const std::string& name : LeftOutNames(**opened.index)) fs::remove(deleted / name);
    for (const std::string& name : bad) RC_ASSERT(!fs::exists(deleted / name));
    // No file is left out without need: each of them depends on a bad file, so that it could not be
    // read.
    const Opened expected = Open(deleted.path());
    RC_ASSERT(expected.index.ok());
    RC_ASSERT(Contents(dir / kIndexFileName) == Contents(deleted / kIndexFileName));
    for (const std::string& name : LeftOutNames(**opened.index)) {
      if (bad.contains(name)) continue;
      fs::copy(dir / name, deleted / name);
      RC_ASSERT(!Open(deleted.path()).index.ok());
      fs::remove(deleted / name);
    }
  });
}

}  // namespace
}  // namespace millrace
