// The index of a dataset of records, which may not belong to the files beside it. It is opened and
// verified, and every record is looked for and read. Unless byte 0 of an input is odd, sizes and
// checksum are first made right, so that the checks behind them are reached too.
#include "server/kinds/records/index/records_index.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/hash.h"
#include "server/kinds/records/generator/records_generator.h"
#include "server/kinds/records/index/records_index_store.h"
#include "server/kinds/records/records_dataset.h"
#include "server/kinds/records/records_source.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::fuzz {
namespace {

constexpr std::size_t kHeaderBytes = 40;
constexpr std::uint64_t kMostRead = 200;  // records of an index, from either end

/// The files are the same each time, so that the corpus fits them.
struct World {
  World() : dir(folder.path() / "data") {
    GenerateRequest request;
    request.params = Params(
        {{"records", std::int64_t{50}}, {"files", std::int64_t{2}}, {"floats", std::int64_t{4}}});
    RequireOk(GenerateRecords(dir, request).status(), "generated records");
  }
  test::TemporaryFolder folder;
  std::filesystem::path dir;
};

const World& TheWorld() {
  static const World world;
  return world;
}

void Seal(std::string& bytes) {
  if (bytes.size() < kHeaderBytes) return;
  const auto put = [&bytes](std::size_t at, std::uint64_t value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  };
  put(16, bytes.size());
  put(32, Xxh3_64(std::as_bytes(std::span(bytes).subspan(kHeaderBytes))));
}

/// The records that are looked at: all of a small index, and both ends of a large one.
std::vector<ExampleId> SomeIds(std::uint64_t records) {
  std::vector<ExampleId> ids;
  for (std::uint64_t i = 0; i < std::min(records, kMostRead); ++i) ids.emplace_back(i);
  for (std::uint64_t i = std::max(records, 2 * kMostRead) - kMostRead; i < records; ++i) {
    ids.emplace_back(i);
  }
  return ids;
}

void LookThrough(const std::shared_ptr<const RecordsIndex>& index) {
  const auto dataset = std::make_shared<const RecordsDataset>(TheWorld().dir, index);
  std::vector<PlacedRecord> places;
  for (const ExampleId id : SomeIds(index->records())) {
    const RecordsIndex::Place place = index->Find(id.value());
    const RecordsFile& file = index->files().at(place.file);
    Require(place.number < file.records, "a record lies in its file");
    Require(place.offset < file.file.size, "a kept offset lies in its file");
    Require(index->FirstRecord(place.file) + place.number == id.value(), "records are numbered");
    const Status found = dataset->Find({&id, 1}, places);
    if (!found.ok()) continue;
    static_cast<void>(dataset->SizeOf(places.front()));
    static_cast<void>(dataset->Read(places.front()));
  }
  PlanParts parts;
  parts.Edit<SourcePart>() = {"records", ParamTree{R"({"s": "int64"})"}, {}};
  const auto source = RecordsSources().Make("records", dataset, parts);
  if (!source.ok()) return;
  for (const ExampleId id : SomeIds(index->records())) {
    static_cast<void>((*source)->Describe(id));
    std::int64_t value = 0;
    for (std::size_t column = 0; column < (*source)->columns().size(); ++column) {
      const ColumnValues wanted{column, {&value, 1}};
      (*source)->ReadColumns(id, {&wanted, 1});
    }
    Digest128 name;
    (*source)->NewNames()->Name({&id, 1}, {&name, 1});
  }
  static_cast<void>((*source)->CheckIntact());
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const fuzz::World& world = fuzz::TheWorld();
  fuzz::Input in(data, size);
  const bool sealed = in.Byte() % 2 == 0;
  std::string bytes(in.rest());
  if (sealed) fuzz::Seal(bytes);
  const std::filesystem::path file = world.folder.path() / "index";
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  const auto index = RecordsIndex::Open(file);
  if (!index.ok()) {
    fuzz::Require(index.status().code() == StatusCode::kDataLoss, "a bad index is DataLoss");
    return 0;
  }
  DatasetOpenOptions options;
  options.threads = 1;
  const Status verified = VerifyRecords(world.dir, **index, options);
  fuzz::Require(verified.ok() || verified.code() == StatusCode::kDataLoss,
                "files that differ are DataLoss");
  fuzz::LookThrough(*index);
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  const World& world = TheWorld();
  DatasetOpenOptions options;
  options.threads = 1;
  options.index_file = world.folder.path() / "whole";
  RecordsIndexOutcome outcome;
  RequireOk(OpenOrBuildRecordsIndex(world.dir, options, outcome).status(), "an index");
  std::ifstream in(options.index_file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  return {std::string(1, '\0') + bytes, std::string(1, '\1') + bytes};
}
