// The file of an index of records: what is written comes back, and nothing else is believed.
#include "server/kinds/records/index/records_index.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "millrace/v1/records_index.pb.h"
#include "tests/support/dataset_fixture.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::TempDir;

RecordsFile RecordsFileOf(const std::string& name, std::uint64_t records, std::uint64_t size) {
  RecordsFile file;
  file.file = {name, size, Xxh3(name), FileIdentity{size, 7, 8, 9, 10}};
  file.records = records;
  file.largest = size;
  return file;
}

/// Three files: 17 records, none, and one.
RecordsIndexContent IndexContent() {
  RecordsIndexContent content;
  content.files = {RecordsFileOf("a.tfrecord", 17, 1000), RecordsFileOf("b.tfrecord", 0, 0),
                   RecordsFileOf("c.tfrecord", 1, 99)};
  content.files[0].others = 2;
  content.files[0].features = {{"d", 17, 0, 0}, {"s", 0, 0, 15}};
  content.files[2].features = {{"s", 1, 0, 0}, {"x", 0, 1, 0}};
  content.left_out = {{{"bad.tfrecord", "at byte 3: why"}, FileIdentity{5, 1, 2, 3, 4}},
                      {{"gone.tfrecord", "no such file"}, std::nullopt}};
  return content;
}
const std::vector<std::vector<std::uint64_t>> kOffsets = {{0, 800}, {}, {0}};

void WriteIndex(const std::filesystem::path& path) {
  REQUIRE(RecordsIndex::Write(path, IndexContent(), kOffsets).ok());
}

std::string OpenError(const std::filesystem::path& path) {
  const auto index = RecordsIndex::Open(path);
  REQUIRE_FALSE(index.ok());
  CHECK_THAT(index.status().message(), Contains(path.string()));
  return index.status().message();
}

/// Rewrites an index with another description and other offsets, and the checksum that they have.
void RewriteIndex(const std::filesystem::path& path,
                  const std::function<void(v1::RecordsIndex&)>& edit,
                  const std::function<void(std::vector<std::uint64_t>&)>& edit_offsets = {}) {
  std::vector<std::byte> old = test::ReadBytes(path);
  std::uint64_t description_bytes;
  std::memcpy(&description_bytes, old.data() + 24, 8);
  v1::RecordsIndex proto;
  REQUIRE(proto.ParseFromArray(old.data() + 40, static_cast<int>(description_bytes)));
  std::vector<std::uint64_t> offsets((old.size() - (40 + description_bytes)) / 8);
  std::memcpy(offsets.data(), old.data() + old.size() - offsets.size() * 8, offsets.size() * 8);
  edit(proto);
  if (edit_offsets) edit_offsets(offsets);
  std::string bytes(reinterpret_cast<const char*>(old.data()), 40);
  proto.AppendToString(&bytes);
  description_bytes = bytes.size() - 40;
  bytes.resize((bytes.size() + 7) / 8 * 8);
  bytes.append(reinterpret_cast<const char*>(offsets.data()), offsets.size() * 8);
  const std::uint64_t file_bytes = bytes.size();
  const std::uint64_t checksum = Xxh3_64(std::as_bytes(std::span(bytes)).subspan(40));
  std::memcpy(bytes.data() + 16, &file_bytes, 8);
  std::memcpy(bytes.data() + 24, &description_bytes, 8);
  std::memcpy(bytes.data() + 32, &checksum, 8);
  const auto view = std::as_bytes(std::span(bytes));
  test::WriteBytes(path, {view.begin(), view.end()});
}

TEST_CASE("an index of records comes back as it was written", "[records_index]") {
  const TempDir dir;
  WriteIndex(dir / "i");
  const auto opened = RecordsIndex::Open(dir / "i");
  INFO(opened.status().message());
  REQUIRE(opened.ok());
  const RecordsIndex& index = **opened;
  CHECK(index.same_host());
  CHECK(index.records() == 18);
  CHECK(index.others() == 2);
  REQUIRE(index.files().size() == 3);
  const IndexedFile& file = index.files()[0].file;
  CHECK(file.name == "a.tfrecord");
  CHECK(file.size == 1000);
  CHECK(file.digest == Xxh3(std::string("a.tfrecord")));
  // Numbers of devices change with a mount, so they are not kept.
  CHECK(file.identity == FileIdentity{1000, 0, 8, 9, 10});
  CHECK(index.files()[0].largest == 1000);
  REQUIRE(index.left_out().size() == 2);
  CHECK(index.left_out()[0].file.ToString() == "bad.tfrecord: at byte 3: why");
  CHECK(index.left_out()[0].identity == FileIdentity{5, 0, 2, 3, 4});
  CHECK_FALSE(index.left_out()[1].identity.has_value());
  REQUIRE(index.features().size() == 3);
  CHECK(index.features()[1].name == "s");
  CHECK(index.features()[1].bytes == 1);
  CHECK(index.features()[1].integers == 15);
  CHECK_FALSE(std::filesystem::exists(dir / "i.tmp"));
}

TEST_CASE("the place of a record is the kept one before it, and how many to skip",
          "[records_index]") {
  const TempDir dir;
  WriteIndex(dir / "i");
  const auto index = *RecordsIndex::Open(dir / "i");
  const auto place = [&](std::uint64_t record) {
    const RecordsIndex::Place found = index->Find(record);
    return std::vector<std::uint64_t>{found.file, found.offset, found.skip, found.number};
  };
  using Place = std::vector<std::uint64_t>;
  CHECK(place(0) == Place{0, 0, 0, 0});
  CHECK(place(15) == Place{0, 0, 15, 15});
  CHECK(place(16) == Place{0, 800, 0, 16});
  CHECK(place(17) == Place{2, 0, 0, 0});  // the file without records is passed over
  CHECK(index->OffsetsOf(0) == kOffsets[0]);
  CHECK(index->OffsetsOf(1).empty());
  CHECK(index->OffsetsOf(2) == kOffsets[2]);
}

TEST_CASE("the digest of a dataset of records is that of names, sizes and contents",
          "[records_index]") {
  const TempDir dir;
  const auto digest = [&](const std::function<void(RecordsIndexContent&)>& edit) {
    RecordsIndexContent content = IndexContent();
    edit(content);
    REQUIRE(RecordsIndex::Write(dir / "i", content, kOffsets).ok());
    return (*RecordsIndex::Open(dir / "i"))->digest();
  };
  const Digest128 usual = digest([](RecordsIndexContent&) {});
  CHECK(usual.ToHex() == "dcc67e5cfb994b847f9846eccc411ce5");
  CHECK(digest([](auto& content) { content.files[1].file.name = "bb"; }) != usual);
  CHECK(digest([](auto& content) { content.files[2].file.size = 98; }) != usual);
  CHECK(digest([](auto& content) { content.files[0].file.digest.low ^= 1; }) != usual);
  CHECK(digest([](auto& content) { content.files[0].file.identity->inode = 1; }) == usual);
  CHECK(digest([](auto& content) { content.left_out.clear(); }) == usual);
}

TEST_CASE("no byte of an index can be changed or cut off unnoticed", "[records_index]") {
  const TempDir dir;
  WriteIndex(dir / "good");
  const std::vector<std::byte> good = test::ReadBytes(dir / "good");
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bytes = good;
    bytes[at] ^= std::byte{4};
    test::WriteBytes(dir / "i", bytes);
    INFO(at);
    CHECK(RecordsIndex::Open(dir / "i").status().code() == StatusCode::kDataLoss);
  }
  for (std::size_t size = 1; size < good.size(); ++size) {
    test::WriteBytes(dir / "i", {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
    INFO(size);
    CHECK(RecordsIndex::Open(dir / "i").status().code() == StatusCode::kDataLoss);
  }
  std::vector<std::byte> longer = good;
  longer.resize(good.size() + 8);
  test::WriteBytes(dir / "i", longer);
  CHECK_THAT(OpenError(dir / "i"), Contains("is damaged; build it again"));
}

TEST_CASE("an index with damaged records has a version that older readers refuse",
          "[records_index]") {
  const TempDir dir;
  RecordsIndexContent content = IndexContent();
  const auto version_of = [&] {
    REQUIRE(RecordsIndex::Write(dir / "i", content, kOffsets).ok());
    return static_cast<int>(test::ReadBytes(dir / "i")[8]);
  };
  CHECK(version_of() == 1);
  content.files[0].frames = Xxh3(std::string("frames"));
  CHECK(version_of() == 1);
  content.files[0].damage = {3, "at byte 5: why", Xxh3(std::string("now"))};
  CHECK(version_of() == 2);
  const RecordsFile file = (*RecordsIndex::Open(dir / "i"))->files()[0];
  CHECK(file.frames == content.files[0].frames);
  REQUIRE(file.damage.has_value());
  CHECK(file.damage->count == 3);
  CHECK(file.damage->first == "at byte 5: why");
  CHECK(file.damage->content == content.files[0].damage->content);
  CHECK_FALSE((*RecordsIndex::Open(dir / "i"))->files()[2].damage.has_value());
  RewriteIndex(dir / "i", [](v1::RecordsIndex& index) {
    index.mutable_files(0)->mutable_damage()->set_records(18);
  });
  CHECK_THAT(OpenError(dir / "i"), Contains("is damaged"));
}

TEST_CASE("an index of another kind or version is refused as such", "[records_index]") {
  const TempDir dir;
  WriteIndex(dir / "i");
  std::vector<std::byte> bytes = test::ReadBytes(dir / "i");
  bytes[8] = std::byte{3};
  test::WriteBytes(dir / "i", bytes);
  CHECK_THAT(OpenError(dir / "i"),
             Contains("has version 3, this build reads 1 and 2; build it again"));
  bytes[0] = std::byte{'m'};
  test::WriteBytes(dir / "i", bytes);
  CHECK_THAT(OpenError(dir / "i"), Contains("is no index of records"));
  CHECK(RecordsIndex::Open(dir / "none").status().code() == StatusCode::kNotFound);
}

TEST_CASE("identities of another host are not believed", "[records_index]") {
  const TempDir dir;
  WriteIndex(dir / "i");
  RewriteIndex(dir / "i", [](v1::RecordsIndex& proto) { proto.mutable_host()->at(0) ^= 1; });
  const auto index = RecordsIndex::Open(dir / "i");
  REQUIRE(index.ok());
  CHECK_FALSE((*index)->same_host());
  CHECK_FALSE((*index)->files()[0].file.identity.has_value());
  CHECK_FALSE((*index)->left_out()[0].identity.has_value());
  CHECK((*index)->records() == 18);
}

TEST_CASE("numbers of an index that cannot be are refused, whatever its checksum",
          "[records_index]") {
  const TempDir dir;
  const auto refused = [&](const std::function<void(v1::RecordsIndex&)>& edit,
                           const std::function<void(std::vector<std::uint64_t>&)>& offsets = {}) {
    WriteIndex(dir / "i");
    RewriteIndex(dir / "i", edit, offsets);
    const auto index = RecordsIndex::Open(dir / "i");
    return !index.ok() && index.status().code() == StatusCode::kDataLoss;
  };
  const auto as_it_is = [](v1::RecordsIndex&) {};
  CHECK_FALSE(refused(as_it_is));
  CHECK(refused([](auto& proto) { proto.mutable_files(0)->set_name(""); }));
  CHECK(refused([](auto& proto) { proto.mutable_files(0)->set_digest("short"); }));
  // A record takes at least 16 bytes.
  CHECK(refused([](auto& proto) { proto.mutable_files(2)->mutable_identity()->set_size(15); }));
  CHECK(refused([](auto& proto) { proto.mutable_files(1)->set_records(1); }));
  // Sums of sizes that do not fit in 64 bits.
  CHECK(refused(
      [](auto& proto) {
        for (int file : {0, 1, 2}) {
          proto.mutable_files(file)->mutable_identity()->set_size(~std::uint64_t{0});
          proto.mutable_files(file)->set_records(std::uint64_t{1} << 60);
        }
      },
      [](auto& offsets) { offsets.clear(); }));
  // Files that are not in order, or come twice.
  CHECK(refused([](auto& proto) { proto.mutable_files(1)->set_name("a.tfrecord"); }));
  CHECK(refused([](auto& proto) { proto.mutable_files(1)->set_name("Z.tfrecord"); }));
  // Offsets behind the end of their file, out of order, and of a first record that is not first.
  CHECK(refused(as_it_is, [](auto& offsets) { offsets[1] = 1000; }));
  CHECK(refused(as_it_is, [](auto& offsets) { offsets[1] = 0; }));
  CHECK(refused(as_it_is, [](auto& offsets) { offsets[2] = 1; }));
  CHECK(refused(as_it_is, [](auto& offsets) { offsets.push_back(0); }));
  CHECK(refused(as_it_is, [](auto& offsets) { offsets.pop_back(); }));
}

TEST_CASE("an index is written beside the old one, which stays if that fails", "[records_index]") {
  const TempDir dir;
  WriteIndex(dir / "i");
  std::filesystem::create_directories(dir / "i.tmp/full");
  const Status status = RecordsIndex::Write(dir / "i", IndexContent(), kOffsets);
  CHECK_FALSE(status.ok());
  CHECK_THAT(status.message(), Contains((dir / "i.tmp").string()));
  CHECK(RecordsIndex::Open(dir / "i").ok());
}

}  // namespace
}  // namespace millrace
