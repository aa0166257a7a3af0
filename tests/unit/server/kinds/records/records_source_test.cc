// Sources of records: rows, columns, names, and what happens where files change.
#include "server/kinds/records/records_source.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "server/files/sigbus_guard.h"
#include "tests/unit/server/kinds/records/records_source_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::ExampleOf;
using test::NumberExample;
using test::RecordParts;
using test::RecordSourceTest;
using test::RecordValues;
using test::TempDir;
using test::WriteNumberRecords;
using test::WriteRecords;

using Ints = std::vector<std::int64_t>;

const std::string kNumbers = R"({"s": "int64"})";

/// Records with a feature x of these floats each; none: the feature is left out.
void WriteFloats(const fs::path& path, const std::vector<std::optional<std::vector<float>>>& all) {
  std::vector<std::string> data;
  for (const auto& floats : all) {
    data.push_back(ExampleOf([&](ExampleBuilder& builder) {
      if (floats) builder.AddFloats("x", *floats);
    }));
  }
  WriteRecords(path, data);
}

TEST_CASE("every record is found, whatever its place among the kept offsets", "[records_source]") {
  const TempDir dir;
  std::vector<std::int64_t> expected;
  for (const int count : {0, 1, 15, 16, 17, 33}) {
    WriteNumberRecords(dir / ("part" + std::to_string(count + 10) + ".tfrecord"), 1000 * count,
                       count);
    for (int i = 0; i < count; ++i) expected.push_back(1000 * count + i);
  }
  RecordSourceTest source(dir.path(), kNumbers);
  REQUIRE(source.source->examples() == expected.size());
  CHECK(RecordValues<std::int64_t>(*source.BuildAll(), "s") == expected);
  // In any order, together and alone.
  std::vector<std::uint64_t> backwards(expected.size());
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  CHECK(RecordValues<std::int64_t>(*source.MustBuild(backwards), "s") ==
        Ints(expected.rbegin(), expected.rend()));
  for (const std::uint64_t id : {0, 1, 16, 31, 32, 48, 49, 64, 65, 80, 81}) {
    CHECK(RecordValues<std::int64_t>(*source.MustBuild({id}), "s") == Ints{expected[id]});
  }
}

TEST_CASE("columns of records are ids, numbers of files and bytes of data", "[records_source]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 20);
  WriteNumberRecords(dir / "b.tfrecord", 0, 0);
  WriteNumberRecords(dir / "c.tfrecord", 1005, 3);
  const RecordSourceTest source(dir.path(), kNumbers);
  CHECK(ColumnNames(*source.source) == std::vector<std::string>{"example_id", "file", "bytes"});
  CHECK(source.Column("example_id", 18, 4) == Ints{18, 19, 20, 21});
  CHECK(source.Column("file", 18, 5) == Ints{0, 0, 2, 2, 2});
  const auto bytes = source.Column("bytes");
  REQUIRE(bytes.size() == 23);
  for (int i = 0; i < 23; ++i) {
    const auto number = i < 20 ? i : 1005 + i - 20;
    CHECK(bytes[static_cast<std::size_t>(i)] ==
          static_cast<std::int64_t>(NumberExample(number).size()));
  }
  CHECK(source.Column("bytes", 22, 1) == Ints{bytes[22]});
  CHECK(source.Column("bytes", 5, 0).empty());
  CHECK(source.source->facts().split_column == "example_id");
}

TEST_CASE("bytes of more records than are read at once are those of each", "[records_source]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 2500);
  const RecordSourceTest source(dir.path(), kNumbers);
  const auto bytes = source.Column("bytes", 7);
  REQUIRE(bytes.size() == 2493);
  for (const std::size_t i : {0, 1023, 1024, 2047, 2048, 2492}) {
    CHECK(bytes[i] ==
          static_cast<std::int64_t>(NumberExample(static_cast<std::int64_t>(i) + 7).size()));
  }
}

TEST_CASE("a split by file prefixes labels the files of records", "[records_source]") {
  const TempDir dir;
  WriteNumberRecords(dir / "test/a.tfrecord", 0, 1);
  WriteNumberRecords(dir / "train/a.tfrecord", 0, 1);
  WriteNumberRecords(dir / "train/b.tfrecord", 0, 1);
  const RecordSourceTest source(dir.path(), kNumbers);
  SplitOptions split;
  split.method = SplitMethod::kFilePrefix;
  split.prefixes = {{"test/"}, {"train/b"}};
  CHECK(*source.source->FileLabels(split) == std::vector<std::uint32_t>{1, 0, 2});
  split.prefixes = {{"valid/"}};
  CHECK(source.source->FileLabels(split).status() ==
        InvalidArgument("split.prefixes: no file's name starts with 'valid/' (list 1): check it "
                        "against the names that `millrace inspect` prints"));
}

TEST_CASE("a record is described by file, number and offset", "[records_source]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 2);
  WriteNumberRecords(dir / "b.tfrecord", 0, 18);
  const RecordSourceTest source(dir.path(), kNumbers);
  const ExampleDescription described = source.source->Describe(ExampleId(19));
  CHECK(described.file == "b.tfrecord");
  CHECK(described.title == "record 17");
  REQUIRE(described.facts.size() == 2);
  std::uint64_t offset = 0;
  for (int i = 0; i < 17; ++i) offset += 16 + NumberExample(i).size();
  CHECK(described.facts[1].value == ExampleFact::Value(offset));
}

TEST_CASE("a ragged tensor has as many elements as its feature has values", "[records_source]") {
  const TempDir dir;
  WriteFloats(dir / "a.tfrecord", {{{1, 2, 3, 4}}, std::nullopt, {{}}, {{5, 6}}});
  RecordSourceTest source(dir.path(), R"({"x": "float32[*, 2]"})");
  const auto batch = source.BuildAll();
  CHECK(RecordValues<float>(*batch, "x") == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(RecordValues<std::uint32_t>(*batch, "x_splits") ==
        std::vector<std::uint32_t>{0, 2, 2, 2, 3});
}

TEST_CASE("a ragged feature whose values fill no whole element is bad", "[records_source]") {
  const TempDir dir;
  WriteFloats(dir / "a.tfrecord", {{{1, 2}}, {{1, 2, 3}}});
  RecordSourceTest source(dir.path(), R"({"x": "float32[*, 2]"})");
  CHECK_THAT(source.ErrorOf({0, 1}),
             Contains("record 1 at byte ") && Contains("x: 3 values, expected a multiple of 2"));
}

TEST_CASE("a dense feature has as many values as its type says", "[records_source]") {
  const TempDir dir;
  WriteFloats(dir / "a.tfrecord", {{{1, 2, 3, 4}}, {{1, 2, 3}}, {{}}, {{1, 2, 3, 4, 5}}});
  RecordSourceTest source(dir.path(), R"({"x": "float32[2, 2]"})");
  CHECK(RecordValues<float>(*source.MustBuild({0}), "x") == std::vector<float>{1, 2, 3, 4});
  CHECK_THAT(source.ErrorOf({1}), Contains("x: 3 values, expected [2, 2]"));
  CHECK_THAT(source.ErrorOf({2}), Contains("x: 0 values, expected [2, 2]"));
  CHECK_THAT(source.ErrorOf({3}), Contains("x: 5 values, expected [2, 2]"));
}

TEST_CASE("bytes of any length are a ragged tensor of theirs", "[records_source]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 4);  // d has 0, 1, 2, 3 bytes
  for (const char* type : {"bytes[*]", "str"}) {
    RecordSourceTest source(dir.path(), std::string(R"({"d": ")") + type + "\"}");
    const auto batch = source.BuildAll();
    CHECK(RecordValues<char>(*batch, "d") == std::vector<char>(6, 'x'));
    CHECK(RecordValues<std::uint32_t>(*batch, "d_splits") ==
          std::vector<std::uint32_t>{0, 0, 1, 3, 6});
  }
}

/// Records with a feature x of these texts each; none: the feature is left out.
void WriteTexts(const fs::path& path,
                const std::vector<std::optional<std::vector<std::string_view>>>& all) {
  std::vector<std::string> data;
  for (const auto& texts : all) {
    data.push_back(ExampleOf([&](ExampleBuilder& builder) {
      if (texts) builder.AddBytes("x", *texts);
    }));
  }
  WriteRecords(path, data);
}

/// The bytes of the texts of all rows, their splits, the lengths of the texts, and the splits of
/// these.
void CheckTexts(const PackedBatch& batch, const std::string& bytes,
                const std::vector<std::uint32_t>& splits, const std::vector<std::uint32_t>& lengths,
                const std::vector<std::uint32_t>& splits_of_lengths) {
  const std::vector<char> found = RecordValues<char>(batch, "x");
  CHECK(std::string(found.begin(), found.end()) == bytes);
  CHECK(RecordValues<std::uint32_t>(batch, "x_splits") == splits);
  CHECK(RecordValues<std::uint32_t>(batch, "x.lengths") == lengths);
  CHECK(RecordValues<std::uint32_t>(batch, "x.lengths_splits") == splits_of_lengths);
}

TEST_CASE("a list of texts is all of their bytes, and the length of each", "[records_source]") {
  const TempDir dir;
  WriteTexts(dir / "a.tfrecord", {{{"a", "", "bc"}}, {{}}, {{"", ""}}, {{"def"}}, std::nullopt});
  RecordSourceTest source(dir.path(), R"({"x": "str[*]"})");
  CheckTexts(*source.BuildAll(), "abcdef", {0, 3, 3, 3, 6, 6}, {1, 0, 2, 0, 0, 3},
             {0, 3, 3, 5, 6, 6});
}

TEST_CASE("a default stands in for a list of texts that is absent", "[records_source]") {
  const TempDir dir;
  WriteTexts(dir / "a.tfrecord", {{{"a"}}, std::nullopt, {{}}});
  RecordSourceTest source(dir.path(), R"({"x": {"type": "str[*]", "default": ["no", "", "ne"]}})");
  CheckTexts(*source.BuildAll(), "anone", {0, 1, 5, 5}, {1, 2, 0, 2}, {0, 1, 4, 4});
}

TEST_CASE("several values where one text is expected are bad", "[records_source]") {
  const TempDir dir;
  WriteTexts(dir / "a.tfrecord", {{{"a", "b"}}});
  RecordSourceTest source(dir.path(), R"({"x": "str"})");
  CHECK_THAT(source.ErrorOf({0}), Contains("bad_record: x: 2 values; to go on"));
}

TEST_CASE("a default stands in for a feature that is absent, and not for a bad one",
          "[records_source]") {
  const TempDir dir;
  WriteFloats(dir / "a.tfrecord", {{{1, 2}}, std::nullopt, {{1, 2, 3}}});
  const auto rows = [&](const std::string& type, const std::string& otherwise) {
    RecordSourceTest source(dir.path(), R"({"y": {"feature": "x", "type": ")" + type +
                                            R"(", "default": )" + otherwise + "}}");
    CHECK_FALSE(source.Build({2}).ok());
    return RecordValues<float>(*source.MustBuild({1, 0, 1}), "y");
  };
  CHECK(rows("float32[2]", "0.5") == std::vector<float>{0.5, 0.5, 1, 2, 0.5, 0.5});
  CHECK(rows("float32[2]", "[3, 4]") == std::vector<float>{3, 4, 1, 2, 3, 4});
  CHECK(rows("float32[*, 2]", "[]") == std::vector<float>{1, 2});
  CHECK(rows("float32[*, 2]", "[7, 8, 9, 10]") ==
        std::vector<float>{7, 8, 9, 10, 1, 2, 7, 8, 9, 10});
}

TEST_CASE("two tensors can have one feature", "[records_source]") {
  const TempDir dir;
  WriteFloats(dir / "a.tfrecord", {{{1, 2}}});
  RecordSourceTest source(dir.path(),
                          R"({"a": {"feature": "x", "type": "float32[2]"}, "x": "float32[*]"})");
  const auto batch = source.MustBuild({0});
  CHECK(RecordValues<float>(*batch, "a") == std::vector<float>{1, 2});
  CHECK(RecordValues<float>(*batch, "x") == std::vector<float>{1, 2});
}

TEST_CASE("a feature that is in no record is refused with those that occur", "[records_source]") {
  const TempDir dir;
  WriteRecords(dir / "a.tfrecord", {NumberExample(1), ExampleOf([](ExampleBuilder& builder) {
                                      const float x = 0;
                                      builder.AddFloats("d", {&x, 1});
                                    })});
  const auto dataset = test::MustOpenRecords(dir.path());
  const auto error = [&](const std::string& features) {
    return RecordsSources().Make("records", dataset, RecordParts(features)).status();
  };
  CHECK(error(R"({"y": {"feature": "image/label", "type": "int64", "default": 0}})") ==
        InvalidArgument("source.records.y: no record of the dataset has a feature 'image/label'; "
                        "those that occur: d (bytes or float32), s (int64)"));
  CHECK(error(R"({"s": "float32"})") ==
        InvalidArgument("source.records.s: the feature 's' holds int64 in every record that has "
                        "it, its type here is float32"));
  // One record is enough.
  CHECK(error(R"({"d": "float32"})").ok());
  CHECK(error(R"({"d": "bytes[1]"})").ok());
}

TEST_CASE("records of excluded files are dropped in their places", "[records_source]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 2);
  WriteNumberRecords(dir / "b.tfrecord", 10, 2);
  PlanParts parts = RecordParts(kNumbers);
  parts.Edit<ExcludePart>().files = {"a.tfrecord"};
  RecordSourceTest source(dir.path(), parts);
  const auto batch = source.BuildAll();
  CHECK(RecordValues<std::int64_t>(*batch, "s") == Ints{10, 11});
  REQUIRE(batch->info().dropped.size() == 2);
  CHECK(batch->info().dropped[1].id == ExampleId(1));
  CHECK(batch->info().dropped[1].reason == DropReason::kExcluded);
}

TEST_CASE("an excluded file of records is not opened", "[records_source]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 2);
  WriteNumberRecords(dir / "b.tfrecord", 10, 2);
  WriteNumberRecords(dir / "c.tfrecord", 20, 2);
  PlanParts parts = RecordParts(kNumbers);
  parts.Edit<ExcludePart>().files = {"b.tfrecord"};
  RecordSourceTest source(dir.path(), parts);
  fs::remove(dir / "b.tfrecord");
  const auto batch = source.MustBuild({2, 0, 4, 3, 5, 1, 2});
  CHECK(RecordValues<std::int64_t>(*batch, "s") == Ints{0, 20, 21, 1});
  CHECK(batch->info().dropped.size() == 3);
  CHECK(source.source->CheckIntact().ok());
  // Who goes by its sizes needs it all the same.
  CHECK(source.Column("bytes", 0, 6)[2] == 0);
  CHECK_THAT(source.source->CheckIntact().message(),
             Contains("the pipeline goes by the column bytes, which needs every file, also "
                      "b.tfrecord: "));
}

TEST_CASE("the name of a record for caches is its file's content and its number there",
          "[records_source]") {
  const TempDir dir;
  WriteNumberRecords(dir / "one/b.tfrecord", 0, 3);
  WriteNumberRecords(dir / "two/a.tfrecord", 50, 2);
  WriteNumberRecords(dir / "two/renamed.tfrecord", 0, 3);
  const auto names = [&](const char* folder) {
    const RecordSourceTest source(dir / folder, kNumbers);
    std::vector<ExampleId> ids;
    for (std::uint64_t i = 0; i < source.source->examples(); ++i) ids.emplace_back(i);
    std::vector<Digest128> all(ids.size());
    source.source->NewNames()->Name(ids, all);
    return all;
  };
  const std::vector<Digest128> one = names("one");
  const std::vector<Digest128> two = names("two");
  CHECK(std::vector<Digest128>(two.begin() + 2, two.end()) == one);
  std::vector<Digest128> all = two;
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("no example is larger than max_example_bytes says", "[records_source]") {
  const TempDir dir;
  const Ints ones(1000, 1);
  WriteRecords(dir / "a.tfrecord", {ExampleOf([&](ExampleBuilder& builder) {
                                      builder.AddInts("i", ones);
                                      builder.AddBytes("d", std::string(50, 'x'));
                                      builder.AddBytes("t", std::vector<std::string_view>(300));
                                    }),
                                    ExampleOf([](ExampleBuilder&) {})});
  const auto check = [&](const std::string& features) {
    RecordSourceTest source(dir.path(), features);
    for (const std::uint64_t id : {0, 1}) {
      const auto batch = source.Build({id});
      if (!batch.ok()) continue;
      std::uint64_t bytes = 0;
      for (std::size_t tensor = 0; tensor < (*batch)->tensors().size(); ++tensor) {
        bytes += (*batch)->tensor_bytes(tensor).size();
      }
      INFO(features << " " << id);
      // A batch of one has one split more.
      CHECK(source.source->facts().max_example_bytes + 16 >= bytes);
    }
  };
  check(R"({"i": "int64[*]"})");
  check(R"({"i": "int64[1000]"})");
  check(R"({"d": "str", "e": {"feature": "d", "type": "bytes[*]"}})");
  check(R"({"t": "str[*]"})");
  std::string many;
  for (int i = 0; i < 5000; ++i) many += i == 0 ? "1" : ", 1";
  check(R"({"i": {"type": "int64[*]", "default": [)" + many + "]}}");
}

TEST_CASE("a record that was written over is damage, named with record and byte",
          "[records_source]") {
  InstallSigbusGuard();
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 20);
  WriteNumberRecords(dir / "b.tfrecord", 100, 20);
  RecordSourceTest source(dir.path(), kNumbers);
  REQUIRE(source.MustBuild({0, 20})->examples() == 2);
  REQUIRE(source.source->CheckIntact().ok());
  std::uint64_t third = 0;
  for (int i = 0; i < 3; ++i) third += 16 + NumberExample(i).size();
  const std::string where = "file a.tfrecord, record 3 at byte " + std::to_string(third);
  SECTION("in its data") {
    test::FlipByte(dir / "a.tfrecord", third + 13);
    CHECK(source.ErrorOf({0, 3}) == "dataset " + dir.path().string() + ": " + where +
                                        ": checksum of the data; it was written to while it was in "
                                        "use");
    CHECK(source.MustBuild({2, 4, 25})->examples() == 3);
  }
  SECTION("in its header") {
    test::FlipByte(dir / "a.tfrecord", third);
    CHECK_THAT(source.ErrorOf({5}), Contains(where + ": checksum of the length"));
    CHECK(source.MustBuild({2, 16, 25})->examples() == 3);
  }
  SECTION("in its header, and the way to others is known") {
    REQUIRE(source.BuildAll()->examples() == 40);
    test::FlipByte(dir / "a.tfrecord", third);
    CHECK(source.MustBuild({2, 5})->examples() == 2);
    CHECK_THAT(source.ErrorOf({3}), Contains(where + ": checksum of the length"));
  }
  SECTION("in its header, where only its size is read") {
    test::FlipByte(dir / "a.tfrecord", third);
    CHECK(source.Column("bytes", 3, 1) == Ints{0});
  }
  const Status intact = source.source->CheckIntact();
  CHECK(intact.code() == StatusCode::kDataLoss);
  CHECK_THAT(intact.message(), Contains("a.tfrecord: at byte " + std::to_string(third) +
                                        ": record 3: checksum of the "));
  CHECK_THAT(intact.message(), Contains("exclude: {files: [\"a.tfrecord\"]}"));
  PlanParts without = RecordParts(kNumbers);
  without.Edit<ExcludePart>().files = {"a.tfrecord"};
  CHECK((*RecordsSources().Make("records", source.dataset, without))->CheckIntact().ok());
}

TEST_CASE("a record with a wrong checksum of its data is dropped, the others of its file are not",
          "[records_source]") {
  InstallSigbusGuard();
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 20);
  RecordSourceTest source(dir.path(), kNumbers, "drop");
  REQUIRE(source.BuildAll()->examples() == 20);
  std::uint64_t third = 0;
  for (int i = 0; i < 3; ++i) third += 16 + NumberExample(i).size();
  SECTION("if it is in the data") { test::FlipByte(dir / "a.tfrecord", third + 13); }
  SECTION("if it is in the checksum") {
    test::FlipByte(dir / "a.tfrecord", third + 12 + NumberExample(3).size());
  }
  const auto batch = source.BuildAll();
  CHECK(batch->examples() == 19);
  REQUIRE(batch->info().dropped.size() == 1);
  CHECK(batch->info().dropped[0] == DroppedExample{ExampleId(3), kBadRecord});
  CHECK(source.Column("bytes", 3, 1) == Ints{static_cast<std::int64_t>(NumberExample(3).size())});
  CHECK(source.source->CheckIntact().ok());
  // A record that cannot be found is another matter.
  test::FlipByte(dir / "a.tfrecord", third);
  CHECK_THAT(source.ErrorOf({3}),
             Contains("record 3 at byte ") && Contains("checksum of the length"));
  CHECK_FALSE(source.source->CheckIntact().ok());
}

TEST_CASE("a record whose header leads to the end of its file has no next one",
          "[records_source]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 3);
  RecordSourceTest source(dir.path(), kNumbers);
  REQUIRE(source.MustBuild({0})->examples() == 1);
  // One sound record takes the place of all three, in the same file.
  const std::uint64_t size = fs::file_size(dir / "a.tfrecord");
  WriteRecords(dir / "other", {std::string(size - 16, 'x')});
  const std::vector<std::byte> bytes = test::ReadBytes(dir / "other");
  std::fstream(dir / "a.tfrecord", std::ios::binary | std::ios::in | std::ios::out)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(size));
  CHECK_THAT(source.ErrorOf({1}),
             Contains("record 1 at byte " + std::to_string(size)) && Contains("header cut off"));
  CHECK_THAT(source.ErrorOf({2}), Contains("header cut off"));
  CHECK(source.Column("bytes", 2, 1) == Ints{0});
}

}  // namespace
}  // namespace millrace
