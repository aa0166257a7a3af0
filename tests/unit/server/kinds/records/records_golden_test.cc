// The odd and broken files of shared/golden-tensors, each as a dataset of its own, through the
// kind.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "server/kinds/records/records_kind.h"
#include "tests/support/skip.h"
#include "tests/unit/server/kinds/records/records_source_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::RecordSourceTest;
using test::RecordValues;
using test::TempDir;

fs::path Golden() {
  const fs::path golden = fs::path(test::SharedDirOrSkip()) / "golden-tensors";
  if (!fs::is_directory(golden)) test::SkipTest("no golden files at " + golden.string());
  return golden;
}

nlohmann::json ReadJson(const fs::path& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

/// The outcome that is written down for a file of `broken`.
struct Broken {
  std::string name;
  std::string outcome;
  std::string why;
  std::uint64_t record = 0;
  std::uint64_t offset = 0;
};

std::vector<Broken> BrokenFiles() {
  std::vector<Broken> files;
  const nlohmann::json outcomes = ReadJson(Golden() / "broken/outcomes.json");
  for (const auto& [name, said] : outcomes.items()) {
    std::string why = said["why"];
    why = why.substr(0, why.find(" (zlib"));  // a remark
    files.push_back({name, said["outcome"], why, said.value("record", std::uint64_t{0}),
                     said.value("offset", std::uint64_t{0})});
  }
  REQUIRE(files.size() == 29);
  return files;
}

/// A dataset of one file.
struct OneFile {
  explicit OneFile(const std::string& name) {
    fs::copy_file(Golden() / "broken" / name, dir / name);
    fs::permissions(dir / name, fs::perms::owner_all);
  }
  TempDir dir;
};

TEST_CASE("every damaged file of the golden files is refused with file, record and offset",
          "[records_golden]") {
  int damaged = 0;
  for (const Broken& file : BrokenFiles()) {
    if (file.outcome != "file_damaged") continue;
    ++damaged;
    INFO(file.name);
    const OneFile folder(file.name);
    const OpenedDataset opened = MakeRecordsKind()->Open(folder.dir.path(), {});
    CHECK(opened.status.code() == StatusCode::kDataLoss);
    CHECK_THAT(opened.status.message(),
               Contains(fmt::format("{}: at byte {}: record {}: {}", file.name, file.offset,
                                    file.record, file.why)));
    // Where data alone are damaged, pipelines that drop bad records may read the others.
    const bool is_data = file.name.starts_with("data_crc");
    CHECK((opened.dataset != nullptr) == is_data);
    CHECK(opened.damaged == std::vector<std::string>{file.name});
  }
  CHECK(damaged == 14);
}

TEST_CASE("every bad record of the golden files fails its batch with file, record, offset and why",
          "[records_golden]") {
  int bad = 0;
  for (const Broken& file : BrokenFiles()) {
    if (file.outcome != "bad_record") continue;
    ++bad;
    INFO(file.name);
    const OneFile folder(file.name);
    RecordSourceTest source(folder.dir.path());
    for (std::uint64_t record = 0; record < source.source->examples(); ++record) {
      if (record == file.record) continue;
      CHECK(source.MustBuild({record})->examples() == 1);
    }
    CHECK(
        source.ErrorOf({file.record}) ==
        fmt::format("dataset {}: file {}, record {} at byte {}: bad_record: {}; to go on without "
                    "it, write `exclude: {{examples: [{}]}}`, or `on_error: drop` beside `records` "
                    "for all such records",
                    folder.dir.path().string(), file.name, file.record, file.offset, file.why,
                    file.record));
    // It is no damage: the file has the bytes that were indexed.
    CHECK(source.source->CheckIntact().ok());
  }
  CHECK(bad == 14);
}

TEST_CASE("every bad record of the golden files is dropped, and nothing else, if that is asked for",
          "[records_golden]") {
  for (const Broken& file : BrokenFiles()) {
    if (file.outcome != "bad_record") continue;
    INFO(file.name);
    const OneFile folder(file.name);
    RecordSourceTest source(folder.dir.path(), test::kBoardAndScore, "drop");
    const auto batch = source.BuildAll();
    REQUIRE(batch->info().dropped.size() == 1);
    CHECK(batch->info().dropped[0].id == ExampleId(file.record));
    CHECK(source.source->facts().drop_reasons.NameOf(batch->info().dropped[0].reason) == "bad_record");
    std::vector<std::uint8_t> others;
    for (std::uint64_t id = 0; id < source.source->examples(); ++id) {
      if (id != file.record) others.push_back(static_cast<std::uint8_t>(id));
    }
    CHECK(RecordValues<std::uint8_t>(*batch, "example_id") == others);
    CHECK(RecordValues<std::uint8_t>(*batch, "d").size() == 194 * others.size());
  }
}

TEST_CASE("a file without bytes is a dataset of no records", "[records_golden]") {
  const OneFile folder("empty.tfrecord");
  RecordSourceTest source(folder.dir.path());
  CHECK(source.source->examples() == 0);
  CHECK(source.BuildAll()->examples() == 0);
}

TEST_CASE("every odd encoding of the golden files is read as protobuf reads it",
          "[records_golden]") {
  const nlohmann::json expected = ReadJson(Golden() / "encodings/expected.json");
  REQUIRE(expected.size() == 19);
  const TempDir dir;
  fs::create_directory(dir / "e");
  fs::copy_file(Golden() / "encodings/encodings.tfrecord", dir / "e/encodings.tfrecord");
  RecordSourceTest source(dir / "e");
  REQUIRE(source.source->examples() == 19);
  const auto batch = source.BuildAll();
  const auto scores = RecordValues<std::int64_t>(*batch, "s");
  const auto boards = RecordValues<std::uint8_t>(*batch, "d");
  REQUIRE(boards.size() == 19 * 194);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(expected[i]["name"].get<std::string>());
    CHECK(expected[i]["d_is_first_records_d"].get<bool>());
    CHECK(scores[i] == expected[i]["s"].get<std::int64_t>());
    CHECK(std::equal(boards.begin(), boards.begin() + 194,
                     boards.begin() + static_cast<std::ptrdiff_t>(i * 194)));
  }
}

TEST_CASE("the good golden files come in the order of the bytes of their names",
          "[records_golden]") {
  const TempDir dir;
  fs::copy(Golden() / "good", dir / "good", fs::copy_options::recursive);
  RecordSourceTest source(dir / "good");
  CHECK(source.source->examples() == 600);
  const std::vector<DatasetFile> files = source.dataset->Files();
  REQUIRE(files.size() == 5);
  CHECK(files[0].name == "empty.tfrecord");
  CHECK(files[1].name == "part-00000-of-00004.tfrecord");
  const auto file = source.Column("file");
  CHECK(std::count(file.begin(), file.end(), 0) == 0);
  CHECK(std::count(file.begin(), file.end(), 1) == 250);
  CHECK(std::count(file.begin(), file.end(), 4) == 1);
  CHECK(std::is_sorted(file.begin(), file.end()));
}

}  // namespace
}  // namespace millrace
