// Files that count as records, and what a scan of one finds.
#include "server/kinds/records/index/records_scan.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "tests/unit/server/kinds/records/records_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::NumberExample;
using test::TempDir;
using test::WriteNumberRecords;
using test::WriteRecords;

Result<ScannedRecords> Scan(const TempDir& dir, const std::string& name,
                            const std::stop_token& stop = {}) {
  return ScanRecords(dir.path(), name, *IdentifyFile(dir / name), stop, nullptr);
}

TEST_CASE("a file of records is known by its name", "[records]") {
  for (const char* good :
       {"a.tfrecord", "a.tfrecords", "a.tfrecord.gz", "tfrecord", "train.tfrecord-00000-of-00010",
        "mnist-train-00000-of-00001", "x-1-of-2", "-1-of-2", "a-b-of-c-00001-of-00002",
        "a.TFRECORD", "a.TFRecord", "train00-5.tfrec", "a.TFREC", "a.tfrecord.zst"}) {
    INFO(good);
    CHECK(IsRecordsFile(good));
  }
  for (const char* bad : {"",
                          ".tfrecord",
                          ".hidden-1-of-2",
                          "a.tfrecord~",
                          "a.tfrecord.tmp",
                          "a.tfrecord.idx",
                          "a.tfrecord.index",
                          "a.tfrecord.MD5",
                          "tfrecord_README.md",
                          "a.tfrecs",
                          "a.bin",
                          "a-of-2",
                          "a-1-of-",
                          "-of-2",
                          "1-of-2",
                          "a-1-of-2.json",
                          "a-x1-of-2",
                          "a-1-of-2x",
                          "-of-",
                          "a--of-2"}) {
    INFO(bad);
    CHECK_FALSE(IsRecordsFile(bad));
  }
}

TEST_CASE("files of records are listed by the bytes of their whole names, at any depth",
          "[records]") {
  const TempDir dir;
  for (const char* name : {"b.tfrecord", "a/z.tfrecord", "a.tfrecord", "a/b/c-00000-of-00001",
                           "a-00000-of-00001", "B.tfrecord"}) {
    WriteRecords(dir / name, {});
  }
  std::ofstream(dir / "notes.txt") << "x";
  // '-' is before '.', and that is before '/': components of a path do not count.
  CHECK(ListRecords(dir.path())->names ==
        std::vector<std::string>{"B.tfrecord", "a-00000-of-00001", "a.tfrecord",
                                 "a/b/c-00000-of-00001", "a/z.tfrecord", "b.tfrecord"});
}

TEST_CASE("a folder without files of records is refused with the names that they have",
          "[records]") {
  const TempDir dir;
  std::ofstream(dir / "a.bin") << "x";
  CHECK(ListRecords(dir.path()).status().message() ==
        "no file of records (*tfrecord*, *.tfrec, *-NNNNN-of-NNNNN) below " + dir.path().string() +
            "; give the folder of a dataset");
  CHECK(ListRecords(dir / "gone").status().code() == StatusCode::kNotFound);
}

TEST_CASE("a scan keeps the offset of every 16th record", "[records]") {
  for (const int count : {0, 1, 15, 16, 17, 33}) {
    INFO(count);
    const TempDir dir;
    WriteNumberRecords(dir / "a.tfrecord", 0, count);
    const auto scanned = Scan(dir, "a.tfrecord");
    REQUIRE(scanned.ok());
    std::vector<std::uint64_t> expected;
    std::uint64_t offset = 0;
    std::uint64_t largest = 0;
    for (int i = 0; i < count; ++i) {
      if (i % 16 == 0) expected.push_back(offset);
      const std::uint64_t bytes = NumberExample(i).size();
      offset += 8 + 4 + bytes + 4;
      largest = std::max(largest, bytes);
    }
    CHECK(scanned->offsets == expected);
    CHECK(scanned->offsets.size() == KeptOffsets(scanned->file.records));
    CHECK(scanned->file.records == static_cast<std::uint64_t>(count));
    CHECK(scanned->file.largest == largest);
    CHECK(scanned->file.others == 0);
    CHECK(scanned->file.file.size == offset);
    const auto bytes = test::ReadBytes(dir / "a.tfrecord");
    CHECK(scanned->file.file.digest == Xxh3(std::span(bytes)));
  }
}

TEST_CASE("a scan hashes all of a file that it reads in several pieces", "[records]") {
  const TempDir dir;
  std::vector<std::string> data;
  for (int i = 0; i < 5; ++i) {
    data.push_back(test::ExampleOf([&](ExampleBuilder& builder) {
      builder.AddBytes("d", std::string(700'000, static_cast<char>('a' + i)));
    }));
  }
  WriteRecords(dir / "a.tfrecord", data);
  std::vector<std::uint64_t> told;
  const auto scanned = ScanRecords(dir.path(), "a.tfrecord", *IdentifyFile(dir / "a.tfrecord"), {},
                                   [&](std::uint64_t bytes) { told.push_back(bytes); });
  REQUIRE(scanned.ok());
  const auto bytes = test::ReadBytes(dir / "a.tfrecord");
  CHECK(scanned->file.file.digest == Xxh3(std::span(bytes)));
  CHECK(told.size() > 1);
  CHECK(std::accumulate(told.begin(), told.end(), std::uint64_t{0}) == bytes.size());
}

TEST_CASE("a scan counts features by the kinds of their lists", "[records]") {
  const TempDir dir;
  const float half = 0.5F;
  const std::int64_t one = 1;
  const auto example = [](const test::MakeExample& make) { return test::ExampleOf(make); };
  WriteRecords(dir / "a.tfrecord", {example([&](ExampleBuilder& builder) {
                                      builder.AddFloats("x", {&half, 1});
                                      builder.AddInts("mixed", {&one, 1});
                                    }),
                                    example([&](ExampleBuilder& builder) {
                                      builder.AddFloats("x", {});
                                      builder.AddBytes("mixed", "text");
                                    }),
                                    example([](ExampleBuilder&) {}), "no message"});
  const auto scanned = Scan(dir, "a.tfrecord");
  REQUIRE(scanned.ok());
  CHECK(scanned->file.records == 4);
  CHECK(scanned->file.others == 1);
  const std::vector<FeatureCounts>& features = scanned->file.features;
  REQUIRE(features.size() == 2);
  CHECK(features[0].name == "mixed");
  CHECK((features[0].bytes == 1 && features[0].floats == 0 && features[0].integers == 1));
  CHECK(features[1].name == "x");
  CHECK((features[1].bytes == 0 && features[1].floats == 2 && features[1].integers == 0));
}

TEST_CASE("a scan counts records with a wrong checksum of their data, and names the first",
          "[records]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 40);
  const RecordsFile sound = Scan(dir, "a.tfrecord")->file;
  CHECK_FALSE(sound.damage.has_value());
  const std::uint64_t second = 16 + NumberExample(0).size();
  test::FlipByte(dir / "a.tfrecord", second + 14);
  test::FlipByte(dir / "a.tfrecord", second + 16 + NumberExample(1).size() + 14);
  const ScannedRecords scanned = *Scan(dir, "a.tfrecord");
  REQUIRE(scanned.file.damage.has_value());
  CHECK(scanned.file.damage->count == 2);
  CHECK(scanned.file.damage->first ==
        "at byte " + std::to_string(second) + ": record 1: checksum of the data");
  CHECK(scanned.file.damage->content == scanned.file.file.digest);
  CHECK(scanned.file.file.digest != sound.file.digest);
  CHECK(scanned.file.records == 40);
  CHECK(scanned.offsets.size() == 3);
  CHECK(scanned.file.features[0].records() == 38);
  // The frames are those of the sound file, unless a checksum itself was changed.
  CHECK(scanned.file.frames == sound.frames);
  test::FlipByte(dir / "a.tfrecord", second - 1);
  CHECK(Scan(dir, "a.tfrecord")->file.damage->count == 3);
  CHECK(Scan(dir, "a.tfrecord")->file.frames != sound.frames);
}

TEST_CASE("a scan names record and byte of the first damage if the next record is not found",
          "[records]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 3);
  const std::uint64_t second = 16 + NumberExample(0).size();
  const std::uint64_t third = second + 16 + NumberExample(1).size();
  test::FlipByte(dir / "a.tfrecord", third);
  CHECK(Scan(dir, "a.tfrecord").status() ==
        DataLoss("at byte " + std::to_string(third) + ": record 2: checksum of the length"));
  test::FlipByte(dir / "a.tfrecord", second + 14);
  CHECK(Scan(dir, "a.tfrecord").status() ==
        DataLoss("at byte " + std::to_string(second) + ": record 1: checksum of the data"));
}

TEST_CASE("a scan that is stopped ends with Cancelled", "[records]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 3);
  std::stop_source stop;
  stop.request_stop();
  CHECK(Scan(dir, "a.tfrecord", stop.get_token()).status().code() == StatusCode::kCancelled);
}

}  // namespace
}  // namespace millrace
