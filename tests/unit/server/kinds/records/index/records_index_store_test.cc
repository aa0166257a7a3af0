// The place of an index of records, and the cases in which it is built again.
#include "server/kinds/records/index/records_index_store.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "common/base/hash.h"
#include "server/files/index_place.h"
#include "tests/unit/server/kinds/records/records_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::OpenedRecords;
using test::OpenRecords;
using test::TempDir;
using test::WriteNumberRecords;

/// Three files, of 20, 3 and no records.
void WriteThree(const TempDir& dir) {
  WriteNumberRecords(dir / "a.tfrecord", 0, 20);
  WriteNumberRecords(dir / "b/c-00000-of-00001", 100, 3);
  WriteNumberRecords(dir / "empty.tfrecord", 0, 0);
}

void MakeOlder(const fs::path& path) {
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
}

TEST_CASE("a missing index of records is built in the dataset's folder, and said",
          "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  const OpenedRecords first = OpenRecords(dir.path());
  REQUIRE(first.index.ok());
  CHECK(first.outcome.built);
  CHECK(first.outcome.unchanged == 0);
  CHECK(first.outcome.file == dir / kIndexFileName);
  CHECK((*first.index)->records() == 23);
  CHECK((*first.index)->files().size() == 3);
  CHECK(first.logger->Has("building the index"));
  CHECK(first.logger->Has("why=there is none"));
}

TEST_CASE("an index of records that fits is opened as it is", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  REQUIRE(OpenRecords(dir.path()).index.ok());
  const auto written = fs::last_write_time(dir / kIndexFileName);
  const OpenedRecords second = OpenRecords(dir.path());
  REQUIRE(second.index.ok());
  CHECK_FALSE(second.outcome.built);
  CHECK_FALSE(second.logger->Has("index"));
  CHECK(fs::last_write_time(dir / kIndexFileName) == written);
}

TEST_CASE("force reads all files again", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  REQUIRE(OpenRecords(dir.path()).index.ok());
  DatasetOpenOptions options;
  options.force = true;
  const OpenedRecords again = OpenRecords(dir.path(), options);
  CHECK(again.outcome.built);
  CHECK(again.outcome.unchanged == 0);
  CHECK(again.logger->Has("why=asked for"));
}

TEST_CASE("only the file that has changed is read again", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  const auto before = *OpenRecords(dir.path()).index;
  WriteNumberRecords(dir / "b/c-00000-of-00001", 200, 18);
  const OpenedRecords after = OpenRecords(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.built);
  // The empty one is taken over too: its identity is as it was.
  CHECK(after.outcome.unchanged == 2);
  CHECK(after.logger->Has("b/c-00000-of-00001 has changed"));
  CHECK((*after.index)->records() == 38);
  CHECK((*after.index)->digest() != before->digest());
  CHECK((*after.index)->OffsetsOf(0) == before->OffsetsOf(0));
  CHECK((*after.index)->OffsetsOf(1).size() == 2);
  CHECK_FALSE(OpenRecords(dir.path()).outcome.built);
}

TEST_CASE("a file whose bytes changed and whose time was put back is read again",
          "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  REQUIRE(OpenRecords(dir.path()).index.ok());
  const auto time = fs::last_write_time(dir / "a.tfrecord");
  test::FlipByte(dir / "a.tfrecord", 14);
  fs::last_write_time(dir / "a.tfrecord", time);
  CHECK(OpenRecords(dir.path()).index.status().code() == StatusCode::kDataLoss);
}

TEST_CASE("a file of other times and the same bytes is hashed, and taken over", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  const auto before = *OpenRecords(dir.path()).index;
  MakeOlder(dir / "a.tfrecord");
  const OpenedRecords after = OpenRecords(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.built);
  CHECK(after.outcome.unchanged == 3);
  CHECK((*after.index)->digest() == before->digest());
  CHECK_FALSE(OpenRecords(dir.path()).outcome.built);
}

TEST_CASE("a file of the same size and other bytes is read again", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  const auto before = *OpenRecords(dir.path()).index;
  WriteNumberRecords(dir / "b/c-00000-of-00001", 110, 3);  // as many bytes
  const OpenedRecords after = OpenRecords(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.outcome.unchanged == 2);
  CHECK((*after.index)->digest() != before->digest());
}

TEST_CASE("an index of records is built again where a file came or went", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  REQUIRE(OpenRecords(dir.path()).index.ok());
  WriteNumberRecords(dir / "new.tfrecord", 0, 1);
  const OpenedRecords more = OpenRecords(dir.path());
  CHECK(more.outcome.unchanged == 3);
  CHECK(more.logger->Has("new.tfrecord is new"));
  CHECK((*more.index)->records() == 24);
  fs::remove(dir / "a.tfrecord");
  const OpenedRecords fewer = OpenRecords(dir.path());
  CHECK(fewer.outcome.unchanged == 3);
  CHECK(fewer.logger->Has("a.tfrecord is gone"));
  CHECK((*fewer.index)->records() == 4);
}

TEST_CASE("an index of records of another host is hashed through and renewed", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  const auto before = *OpenRecords(dir.path()).index;
  std::vector<std::byte> bytes = test::ReadBytes(dir / kIndexFileName);
  bytes[42] ^= std::byte{1};  // the first byte of the host's id, behind tag and length
  const std::uint64_t checksum = Xxh3_64(std::span<const std::byte>(bytes).subspan(40));
  std::memcpy(bytes.data() + 32, &checksum, sizeof(checksum));
  test::WriteBytes(dir / kIndexFileName, bytes);
  REQUIRE_FALSE((*RecordsIndex::Open(dir / kIndexFileName))->same_host());
  const OpenedRecords after = OpenRecords(dir.path());
  REQUIRE(after.index.ok());
  CHECK(after.logger->Has("it was built on another host"));
  CHECK(after.outcome.unchanged == 2);  // a file without bytes is read again
  CHECK((*after.index)->digest() == before->digest());
  CHECK((*after.index)->same_host());
}

TEST_CASE("a damaged index of records is built again", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  REQUIRE(OpenRecords(dir.path()).index.ok());
  const auto size = fs::file_size(dir / kIndexFileName);
  test::FlipByte(dir / kIndexFileName, size / 2);
  const OpenedRecords damaged = OpenRecords(dir.path());
  REQUIRE(damaged.index.ok());
  CHECK(damaged.outcome.built);
  CHECK(damaged.logger->Has("is damaged"));
  fs::resize_file(dir / kIndexFileName, size / 2);
  CHECK(OpenRecords(dir.path()).outcome.built);
  fs::resize_file(dir / kIndexFileName, 0);
  const OpenedRecords empty = OpenRecords(dir.path());
  CHECK(empty.index.ok());
  CHECK(empty.outcome.built);
}

TEST_CASE("the index of records that cannot lie in its folder lies in the cache",
          "[records_store]") {
  const TempDir dir;
  const TempDir cache;
  WriteThree(dir);
  fs::permissions(dir.path(), static_cast<fs::perms>(0555));
  fs::permissions(cache.path(), fs::perms::all);
  DatasetOpenOptions options;
  options.cache_dir = cache.path();
  const bool is_root = ::geteuid() == 0;
  if (is_root) REQUIRE(::seteuid(65534) == 0);
  const OpenedRecords first = OpenRecords(dir.path(), options);
  const OpenedRecords second = OpenRecords(dir.path() / ".", options);
  if (is_root) REQUIRE(::seteuid(0) == 0);
  fs::permissions(dir.path(), fs::perms::owner_all);
  INFO(first.index.status().ToString());
  REQUIRE(first.index.ok());
  CHECK(first.outcome.built);
  CHECK(first.outcome.file.string().starts_with(cache.path().string()));
  REQUIRE(second.index.ok());
  CHECK_FALSE(second.outcome.built);
}

TEST_CASE("a file that is no index of records is not overwritten", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  std::ofstream(dir / "thesis.txt") << "years of work";
  DatasetOpenOptions options;
  options.index_file = dir / "thesis.txt";
  const OpenedRecords opened = OpenRecords(dir.path(), options);
  CHECK(opened.index.status().code() == StatusCode::kInvalidArgument);
  CHECK_THAT(opened.index.status().message(),
             Contains("thesis.txt: is no index, and is not overwritten"));
  CHECK(fs::file_size(dir / "thesis.txt") == 13);
}

TEST_CASE("an index with the name of a file of records is refused", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  DatasetOpenOptions options;
  for (const char* name : {"a.tfrecord", "new.tfrecord", "b/c-00000-of-00001"}) {
    options.index_file = dir / name;
    CHECK_THAT(OpenRecords(dir.path(), options).index.status().message(),
               Contains("has the name of a dataset's own file"));
  }
  options.index_file = dir / "my.index";
  CHECK(OpenRecords(dir.path(), options).outcome.file == dir / "my.index");
}

TEST_CASE("all bad files of a dataset of records are named together", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  const auto before = *OpenRecords(dir.path()).index;
  const std::vector<std::byte> index = test::ReadBytes(dir / kIndexFileName);
  test::FlipByte(dir / "a.tfrecord", 14);
  fs::resize_file(dir / "b/c-00000-of-00001", 5);
  const OpenedRecords opened = OpenRecords(dir.path());
  CHECK(opened.index.status().code() == StatusCode::kDataLoss);
  REQUIRE(opened.outcome.bad.size() == 2);
  CHECK(opened.outcome.bad[0].ToString() ==
        "a.tfrecord: at byte 0: record 0: checksum of the data");
  CHECK(opened.outcome.bad[1].ToString() ==
        "b/c-00000-of-00001: at byte 0: record 0: header cut off");
  for (const BadFile& file : opened.outcome.bad) {
    CHECK_THAT(opened.index.status().message(), Contains(file.ToString()));
  }
  CHECK(test::ReadBytes(dir / kIndexFileName) == index);
}

TEST_CASE("an index has files with damaged records, beside the error about them",
          "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  test::FlipByte(dir / "a.tfrecord", 14);
  for (const bool built : {true, false}) {
    const OpenedRecords opened = OpenRecords(dir.path());
    CHECK(opened.index.status().code() == StatusCode::kDataLoss);
    CHECK_THAT(
        opened.index.status().message(),
        Contains("(--skip-bad indexes without bad files): 1 bad file\n  a.tfrecord: at byte 0: "
                 "record 0: checksum of the data"));
    REQUIRE(opened.outcome.bad.size() == 1);
    CHECK(opened.outcome.built == built);
    CHECK(opened.logger->Has("file has damaged records") == built);
    REQUIRE(opened.outcome.with_damage != nullptr);
    CHECK(opened.outcome.with_damage->records() == 23);
    CHECK_THAT(VerifyRecords(dir.path(), *opened.outcome.with_damage, {}).message(),
               Contains("a.tfrecord: at byte 0: record 0: checksum of the data"));
  }
}

TEST_CASE("a file with damaged records is left out if that is asked for, and only then",
          "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  test::FlipByte(dir / "a.tfrecord", 14);
  DatasetOpenOptions skip;
  skip.skip_bad = true;
  for (int i = 0; i < 2; ++i) {
    CHECK(OpenRecords(dir.path()).outcome.with_damage->records() == 23);
    const OpenedRecords without = OpenRecords(dir.path(), skip);
    REQUIRE(without.index.ok());
    CHECK(without.outcome.with_damage == nullptr);
    CHECK((*without.index)->records() == 3);
    CHECK((*without.index)->left_out()[0].file.ToString() ==
          "a.tfrecord: at byte 0: record 0: checksum of the data");
  }
}

TEST_CASE("a dataset keeps its digest if data of its records are damaged", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  const Digest128 sound = (*OpenRecords(dir.path()).index)->digest();
  const auto digest_after = [&](std::uint64_t flipped) {
    test::FlipByte(dir / "a.tfrecord", flipped);
    const OpenedRecords opened = OpenRecords(dir.path());
    CHECK_FALSE(opened.index.ok());
    REQUIRE(opened.outcome.with_damage != nullptr);
    return opened.outcome.with_damage->digest();
  };
  CHECK(digest_after(14) == sound);
  SECTION("once it is mended it is the same") {
    test::FlipByte(dir / "a.tfrecord", 14);
    const OpenedRecords mended = OpenRecords(dir.path());
    REQUIRE(mended.index.ok());
    CHECK((*mended.index)->digest() == sound);
    CHECK_FALSE((*mended.index)->files()[0].damage.has_value());
  }
  SECTION("a file that was touched is still damaged") {
    MakeOlder(dir / "a.tfrecord");
    const OpenedRecords again = OpenRecords(dir.path());
    CHECK_FALSE(again.index.ok());
    CHECK(again.outcome.with_damage->digest() == sound);
  }
  SECTION("other records are another dataset") {
    WriteNumberRecords(dir / "a.tfrecord", 20, 20);
    CHECK(digest_after(14) != sound);
  }
  SECTION("a checksum that was changed is another dataset, because nothing tells which is wrong") {
    CHECK(digest_after(16 + test::NumberExample(0).size() - 1) != sound);
  }
}

TEST_CASE("bad files of records are left out if that is asked for, and only then",
          "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  test::FlipByte(dir / "a.tfrecord", 14);
  DatasetOpenOptions options;
  options.skip_bad = true;
  const OpenedRecords without = OpenRecords(dir.path(), options);
  REQUIRE(without.index.ok());
  CHECK((*without.index)->records() == 3);
  REQUIRE((*without.index)->left_out().size() == 1);
  CHECK((*without.index)->left_out()[0].file.name == "a.tfrecord");
  CHECK(without.logger->Has("file left out"));
  CHECK_FALSE(OpenRecords(dir.path(), options).outcome.built);
  CHECK(OpenRecords(dir.path()).index.status().code() == StatusCode::kDataLoss);
  SECTION("a file that was left out is looked at again once it has changed") {
    WriteNumberRecords(dir / "a.tfrecord", 0, 20);
    const OpenedRecords mended = OpenRecords(dir.path(), options);
    CHECK(mended.outcome.built);
    CHECK((*mended.index)->records() == 23);
    CHECK((*mended.index)->left_out().empty());
  }
  SECTION("a dataset of bad files alone is refused") {
    fs::remove(dir / "b/c-00000-of-00001");
    fs::remove(dir / "empty.tfrecord");
    const OpenedRecords nothing = OpenRecords(dir.path(), options);
    CHECK(nothing.index.status().code() == StatusCode::kDataLoss);
  }
}

TEST_CASE("building an index of records can be stopped", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  std::stop_source stop;
  stop.request_stop();
  DatasetOpenOptions options;
  options.stop = stop.get_token();
  CHECK(OpenRecords(dir.path(), options).index.status().code() == StatusCode::kCancelled);
  CHECK_FALSE(fs::exists(dir / kIndexFileName));
}

TEST_CASE("verify names every file of records that differs, is gone, or is not indexed",
          "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  WriteNumberRecords(dir / "gone.tfrecord", 0, 1);
  WriteNumberRecords(dir / "short.tfrecord", 0, 1);
  const auto index = *OpenRecords(dir.path()).index;
  CHECK(VerifyRecords(dir.path(), *index, {}).ok());
  test::FlipByte(dir / "a.tfrecord", 14);
  fs::remove(dir / "gone.tfrecord");
  fs::resize_file(dir / "short.tfrecord", 1);
  WriteNumberRecords(dir / "new.tfrecord", 0, 1);
  const Status status = VerifyRecords(dir.path(), *index, {});
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Contains("differs from its index"));
  CHECK_THAT(status.message(), Contains("a.tfrecord: has digest ") && Contains("gone.tfrecord: ") &&
                                   Contains("short.tfrecord: has 1 bytes, expected ") &&
                                   Contains("new.tfrecord: is not in the index"));
  CHECK(status.message().find("c-00000-of-00001") == std::string::npos);
}

TEST_CASE("an index of records that is only looked for is not built", "[records_store]") {
  const TempDir dir;
  WriteThree(dir);
  CHECK(FindRecordsIndex(dir.path(), {}).status() ==
        NotFound("dataset " + dir.path().string() +
                 " has no index; build it with `millrace index " + dir.path().string() + "`"));
  REQUIRE(OpenRecords(dir.path()).index.ok());
  fs::remove(dir / "a.tfrecord");
  CHECK((*FindRecordsIndex(dir.path(), {}))->records() == 23);
}

}  // namespace
}  // namespace millrace
