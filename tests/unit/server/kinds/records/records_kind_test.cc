#include "server/kinds/records/records_kind.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "server/catalog/product_kinds.h"
#include "server/files/index_place.h"
#include "server/source/warm.h"
#include "tests/unit/server/kinds/records/records_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::TempDir;
using test::WriteNumberRecords;

TEST_CASE("a folder of records is opened, described and verified as a kind", "[records_kind]") {
  const TempDir dir;
  const auto kind = MakeRecordsKind();
  CHECK_FALSE(kind->IsOne(dir.path()));
  WriteNumberRecords(dir / "sub/a.tfrecord", 0, 20);
  WriteNumberRecords(dir / "b-00000-of-00001", 0, 1);
  std::ofstream(dir / "notes.json") << "{}";
  CHECK(kind->IsOne(dir.path()));
  const auto found = ProductKinds().Find(dir.path(), "");
  REQUIRE(found.ok());
  CHECK((*found)->name() == "records");

  const std::string index = *kind->Index(dir.path(), {});
  CHECK_THAT(index, Contains("index            " + (dir / kIndexFileName).string()) &&
                        Contains("0 of 2 files as before"));
  CHECK_THAT(*kind->Index(dir.path(), {}), Contains("fits             as it is\n"));
  CHECK_THAT(*kind->Inspect(dir.path(), {}),
             Contains("records          21\n") && Contains("files            2\n") &&
                 Contains("  d                            bytes            in 21 records\n") &&
                 Contains("  sub/a.tfrecord: 20 records, ") &&
                 Contains("  no records, by its name: notes.json\n"));
  const OpenedDataset opened = kind->Open(dir.path(), {});
  REQUIRE(opened.status.ok());
  CHECK(opened.dataset->kind() == "records");
  CHECK(opened.dataset->examples() == 21);
  CHECK(opened.dataset->file_count() == 2);
  CHECK(opened.dataset->Files()[0].name == "b-00000-of-00001");
  CHECK(opened.dataset->can_exclude_files());
  CHECK_THAT(*kind->Verify(dir.path(), {}),
             Contains("2 files, ") &&
                 Contains("all as indexed\ndigest " + opened.dataset->digest().ToHex()));
}

TEST_CASE("a folder of an import that has not ended is no dataset, and says how to go on",
          "[records_kind]") {
  const TempDir dir;
  const bool has_shards = GENERATE(false, true);  // some have their names already
  if (has_shards) WriteNumberRecords(dir / "part-00000-of-00002.tfrecord", 0, 3);
  std::ofstream(dir / "import.unfinished.json") << "{}";
  const auto kinds = ProductKinds();
  const auto found = kinds.Find(dir.path(), "");
  REQUIRE(found.ok());
  CHECK((*found)->name() == "records");
  const OpenedDataset opened = (*found)->Open(dir.path(), {});
  CHECK(opened.dataset == nullptr);
  CHECK(opened.status.code() == StatusCode::kFailedPrecondition);
  for (const Status& status :
       {opened.status, (*found)->Index(dir.path(), {}).status(),
        (*found)->Inspect(dir.path(), {}).status(), (*found)->FilesToWarm(dir.path()).status()}) {
    CHECK_THAT(status.message(), Contains("the import into " + dir.path().string()) &&
                                     Contains(" has not ended: run the same `millrace import`") &&
                                     Contains("remove the folder"));
  }
}

TEST_CASE("records whose data are no Example are counted, and open", "[records_kind]") {
  const TempDir dir;
  test::WriteRecords(dir / "a.tfrecord", {test::NumberExample(1), "no message"});
  CHECK_THAT(*MakeRecordsKind()->Inspect(dir.path(), {}),
             Contains("no Example       1 records: their data are no tf.train.Example\n"));
}

TEST_CASE("a dataset of records with a damaged file serves plans without it, if it was good once",
          "[records_kind]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 20);
  WriteNumberRecords(dir / "b.tfrecord", 0, 1);
  const auto kind = MakeRecordsKind();
  const auto before = kind->Open(dir.path(), {});
  REQUIRE(before.status.ok());
  test::FlipByte(dir / "b.tfrecord", 13);
  OpenedDataset opened = kind->Open(dir.path(), {});
  CHECK(opened.status.code() == StatusCode::kDataLoss);
  CHECK(opened.damaged == std::vector<std::string>{"b.tfrecord"});
  CHECK(opened.bad_files == 1);
  REQUIRE(opened.dataset != nullptr);
  CHECK(opened.dataset->digest() == before.dataset->digest());
  CHECK(opened.dataset->LeavesToSources("b.tfrecord"));
  CHECK_FALSE(opened.dataset->LeavesToSources("a.tfrecord"));
  // Nothing can be excluded with an index that does not know the file.
  WriteNumberRecords(dir / "c.tfrecord", 0, 1);
  test::FlipByte(dir / "c.tfrecord", 3);
  opened = kind->Open(dir.path(), {});
  CHECK(opened.damaged.size() == 2);
  CHECK(opened.dataset == nullptr);
}

TEST_CASE("a dataset of records whose data were never sound is opened with the error",
          "[records_kind]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 20);
  WriteNumberRecords(dir / "b.tfrecord", 0, 2);
  test::FlipByte(dir / "b.tfrecord", 13);
  const auto kind = MakeRecordsKind();
  const OpenedDataset opened = kind->Open(dir.path(), {});
  CHECK(opened.status.code() == StatusCode::kDataLoss);
  CHECK(opened.damaged == std::vector<std::string>{"b.tfrecord"});
  REQUIRE(opened.dataset != nullptr);
  CHECK(opened.dataset->examples() == 22);
  CHECK(opened.dataset->Damages().empty());
  for (const Status& status :
       {kind->Index(dir.path(), {}).status(), kind->Inspect(dir.path(), {}).status(),
        kind->Verify(dir.path(), {}).status()}) {
    CHECK_THAT(status.message(), Contains("b.tfrecord: at byte 0: record 0: checksum of the data"));
  }
}

TEST_CASE("a dataset of records says what an index leaves out", "[records_kind]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 20);
  WriteNumberRecords(dir / "b.tfrecord", 0, 1);
  test::FlipByte(dir / "b.tfrecord", 13);
  const auto kind = MakeRecordsKind();
  DatasetOpenOptions options;
  options.skip_bad = true;
  const OpenedDataset opened = kind->Open(dir.path(), options);
  REQUIRE(opened.status.ok());
  CHECK(opened.bad_files == 1);
  CHECK(opened.dataset->left_out_count() == 1);
  CHECK(opened.dataset->LeftOut(0).empty());
  CHECK(opened.dataset->LeftOut(5)[0].name == "b.tfrecord");
  CHECK_THAT(*kind->Inspect(dir.path(), options),
             Contains("  left out: b.tfrecord: at byte 0: record 0: checksum of the data\n"));
  CHECK_THAT(*kind->Verify(dir.path(), options), Contains("1 files left out of the index\n"));
}

TEST_CASE("files of records are warmed together with their index", "[records_kind]") {
  const TempDir dir;
  WriteNumberRecords(dir / "a.tfrecord", 0, 20);
  const auto kind = MakeRecordsKind();
  CHECK(kind->FilesToWarm(dir.path())->names == std::vector<std::string>{"a.tfrecord"});
  REQUIRE(kind->Index(dir.path(), {}).ok());
  const DatasetListing listing = *kind->FilesToWarm(dir.path());
  CHECK(listing.names == std::vector<std::string>{"a.tfrecord", kIndexFileName});
  WarmOptions options;
  options.threads = 1;
  const auto report = WarmFiles(dir.path(), listing, options);
  REQUIRE(report.ok());
  CHECK(report->files == 2);
}

}  // namespace
}  // namespace millrace
