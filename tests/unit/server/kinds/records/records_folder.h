// Small datasets of records for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "server/kinds/records/format/example_builder.h"
#include "server/kinds/records/format/record_writer.h"
#include "server/kinds/records/index/records_index_store.h"
#include "server/kinds/records/records_dataset.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/recording_logger.h"

namespace millrace::test {

/// The data of a record: features are added to a builder.
using MakeExample = std::function<void(ExampleBuilder&)>;

inline std::string ExampleOf(const MakeExample& make) {
  ExampleBuilder builder;
  make(builder);
  const auto bytes = builder.Finish();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A record with the feature `s`, an integer, and `d`, as many bytes as its last digit.
inline std::string NumberExample(std::int64_t s) {
  return ExampleOf([s](ExampleBuilder& builder) {
    builder.AddBytes("d", std::string(static_cast<std::size_t>(s % 10), 'x'));
    builder.AddInts("s", {&s, 1});
  });
}

/// Writes a file of records, and the folders that its name contains.
inline void WriteRecords(const std::filesystem::path& path, const std::vector<std::string>& data) {
  std::filesystem::create_directories(path.parent_path());
  auto writer = RecordWriter::Create(path);
  REQUIRE(writer.ok());
  for (const std::string& record : data) {
    REQUIRE(writer->Append(std::as_bytes(std::span(record))).ok());
  }
  REQUIRE(writer->Close(/*sync=*/false).ok());
}

/// Writes a file with the records `first`, first + 1, … of NumberExample.
inline void WriteNumberRecords(const std::filesystem::path& path, std::int64_t first, int count) {
  std::vector<std::string> data;
  for (int i = 0; i < count; ++i) data.push_back(NumberExample(first + i));
  WriteRecords(path, data);
}

/// Changes one byte of a file in place.
inline void FlipByte(const std::filesystem::path& path, std::uint64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(at));
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

/// The index of a folder, and what was done and logged to have it.
struct OpenedRecords {
  Result<std::shared_ptr<const RecordsIndex>> index = NotFound("not opened");
  RecordsIndexOutcome outcome = {};
  std::shared_ptr<RecordingLogger> logger = std::make_shared<RecordingLogger>();
};

inline OpenedRecords OpenRecords(const std::filesystem::path& dir,
                                 DatasetOpenOptions options = {}) {
  OpenedRecords opened;
  options.logger = opened.logger;
  options.threads = 1;
  opened.index = OpenOrBuildRecordsIndex(dir, options, opened.outcome);
  return opened;
}

/// The dataset in a folder, which is good.
inline std::shared_ptr<const RecordsDataset> MustOpenRecords(const std::filesystem::path& dir) {
  OpenedRecords opened = OpenRecords(dir);
  INFO(opened.index.status().message());
  REQUIRE(opened.index.ok());
  return std::make_shared<const RecordsDataset>(dir, *std::move(opened.index));
}

}  // namespace millrace::test
