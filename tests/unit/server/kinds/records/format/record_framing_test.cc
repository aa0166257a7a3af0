#include "server/kinds/records/format/record_framing.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <limits>
#include <string>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "tests/support/skip.h"
#include "tests/unit/server/kinds/records/format/record_file.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::BytesOf;
using test::Record;

RecordFault FaultOf(std::string_view file, std::uint64_t offset = 0) {
  const FramedRecord record = ReadRecord(BytesOf(file), offset);
  CHECK(record.data.empty());
  CHECK(record.next == offset);
  return record.fault;
}

TEST_CASE("records follow each other to the end of the file", "[records]") {
  const std::string file = Record("one") + Record("") + Record(std::string(70000, 'x'));
  const auto all = test::ReadAllRecords(file);
  CHECK(all.fault == RecordFault::kSound);
  CHECK(all.records == std::vector<std::string>{"one", "", std::string(70000, 'x')});
  for (const bool check_data : {true, false}) {
    CHECK(ReadRecord(BytesOf(file), 0, check_data).next == 19);
    CHECK(ReadRecord(BytesOf(file), 19, check_data).next == 35);
    CHECK(ReadRecord(BytesOf(file), 35, check_data).next == file.size());
  }
}

TEST_CASE("a flipped bit of a record is told by the checksum of its part", "[records]") {
  const std::string good = Record("some data");
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    CAPTURE(bit);
    std::string file = good;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ 1 << bit % 8);
    CHECK(FaultOf(file) == (bit < 8 * kRecordHeaderBytes ? RecordFault::kLengthChecksum
                                                         : RecordFault::kDataChecksum));
  }
}

TEST_CASE("a file that is cut off says whether the header or the record is", "[records]") {
  const std::string file = Record("first") + Record("second");
  const std::uint64_t second = Record("first").size();
  for (std::size_t size = second + 1; size < file.size(); ++size) {
    CAPTURE(size);
    CHECK(FaultOf(file.substr(0, size), second) ==
          (size < second + kRecordHeaderBytes ? RecordFault::kHeaderCutOff : RecordFault::kCutOff));
  }
}

TEST_CASE("a length that is larger than the file is a record cut off, however large", "[records]") {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t length : {std::uint64_t{5}, std::uint64_t{8}, most, most - 3, most - 4,
                                     most - 11, most - 12, most - 15, most - 16, most / 2}) {
    CAPTURE(length);
    const std::string file = test::RecordHeader(length) + "12345678";
    CHECK(FaultOf(file) == RecordFault::kCutOff);
    CHECK(ReadRecord(BytesOf(file), 0, /*check_data=*/false).fault == RecordFault::kCutOff);
  }
}

TEST_CASE("gzip is told at the begin of a file, and never where the length is right", "[records]") {
  CHECK(FaultOf(std::string("\x1F\x8B\x08", 3) + std::string(30, '\0')) == RecordFault::kGzip);
  CHECK(FaultOf(Record("") + std::string("\x1F\x8B\x08", 3) + std::string(30, '\0'), 16) ==
        RecordFault::kLengthChecksum);
  const std::string file = Record(std::string(0x8B1F, 'x'));  // its length begins as gzip does
  CHECK(ReadRecord(BytesOf(file), 0).fault == RecordFault::kSound);
  CHECK(FaultOf(file + std::string(30, 'x'), file.size()) == RecordFault::kLengthChecksum);
}

TEST_CASE("data with a wrong checksum is read if the checksum is not asked for", "[records]") {
  std::string file = Record("data");
  file.back() = static_cast<char>(file.back() ^ 1);
  const FramedRecord record = ReadRecord(BytesOf(file), 0, /*check_data=*/false);
  CHECK(record.fault == RecordFault::kSound);
  CHECK(record.data.size() == 4);
  CHECK(record.next == file.size());
}

TEST_CASE("golden broken files have the recorded fault at the recorded place", "[records]") {
  const fs::path dir = fs::path(test::SharedDirOrSkip()) / "golden-tensors/broken";
  if (!fs::exists(dir)) test::SkipTest("no golden records");
  google::protobuf::Struct outcomes;
  REQUIRE(google::protobuf::util::JsonStringToMessage(test::ReadFileText(dir / "outcomes.json"),
                                                      &outcomes)
              .ok());
  CHECK(outcomes.fields().size() == 29);
  for (const auto& [name, outcome] : outcomes.fields()) {
    CAPTURE(name);
    const auto& fields = outcome.struct_value().fields();
    const auto all = test::ReadAllRecords(test::ReadFileText(dir / name));
    if (fields.at("outcome").string_value() != "file_damaged") {
      CHECK(all.fault == RecordFault::kSound);
      continue;
    }
    std::string why = fields.at("why").string_value();
    if (name == "zlib.tfrecord") why = "checksum of the length";
    CHECK(Describe(all.fault) == why);
    CHECK(static_cast<double>(all.records.size()) == fields.at("record").number_value());
    CHECK(static_cast<double>(all.offset) == fields.at("offset").number_value());
  }
}

TEST_CASE("golden good files have no fault, and 600 records", "[records]") {
  const fs::path dir = fs::path(test::SharedDirOrSkip()) / "golden-tensors/good";
  if (!fs::exists(dir)) test::SkipTest("no golden records");
  std::size_t records = 0;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const auto all = test::ReadAllRecords(test::ReadFileText(entry.path()));
    CHECK(all.fault == RecordFault::kSound);
    records += all.records.size();
  }
  CHECK(records == 600);
}

}  // namespace
}  // namespace millrace
