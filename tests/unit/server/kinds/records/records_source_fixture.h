// Sources of datasets of records for tests, without plans.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/batch_writer.h"
#include "server/kinds/records/records_source.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"
#include "tests/unit/server/kinds/records/records_folder.h"

namespace millrace::test {

inline const std::string kBoardAndScore = R"({"d": "bytes[194]", "s": "int64"})";

/// The parts of a plan over features, which are JSON.
inline PlanParts RecordParts(const std::string& features, const std::string& on_error = "fail") {
  PlanParts parts;
  parts.Edit<SourcePart>() = {"records", ParamTree{features}, {{"on_error", on_error}}};
  return parts;
}

/// A source of records, with memory for its batches.
class RecordSourceTest {
 public:
  explicit RecordSourceTest(const std::filesystem::path& dir,
                            const std::string& features = kBoardAndScore,
                            const std::string& on_error = "fail")
      : RecordSourceTest(dir, RecordParts(features, on_error)) {}
  RecordSourceTest(const std::filesystem::path& dir, const PlanParts& parts)
      : dataset(MustOpenRecords(dir)) {
    auto made = RecordsSources().Make("records", dataset, parts);
    INFO(made.status().message());
    REQUIRE(made.ok());
    source = *std::move(made);
  }

  /// The batch of some records, or the error.
  Result<std::shared_ptr<const PackedBatch>> Build(const std::vector<std::uint64_t>& records) {
    auto writer = BatchWriter::Create(source->tensors(), source->expand(), pool_);
    REQUIRE(writer.ok());
    writer->Begin({}, 0, 0, static_cast<std::uint32_t>(records.size()));
    std::vector<ExampleId> ids;
    for (const std::uint64_t record : records) ids.emplace_back(record);
    MILLRACE_RETURN_IF_ERROR(source->NewReader()->Append(ids, *writer));
    return writer->Seal();
  }
  std::shared_ptr<const PackedBatch> MustBuild(const std::vector<std::uint64_t>& records) {
    auto batch = Build(records);
    INFO(batch.status().message());
    REQUIRE(batch.ok());
    return *std::move(batch);
  }
  std::shared_ptr<const PackedBatch> BuildAll() {
    std::vector<std::uint64_t> records(source->examples());
    for (std::size_t i = 0; i < records.size(); ++i) records[i] = i;
    return MustBuild(records);
  }
  std::string ErrorOf(const std::vector<std::uint64_t>& records) {
    const auto batch = Build(records);
    REQUIRE_FALSE(batch.ok());
    CHECK(batch.status().code() == StatusCode::kDataLoss);
    return batch.status().message();
  }

  /// A column of some examples.
  std::vector<std::int64_t> Column(const std::string& name, std::uint64_t first = 0,
                                   std::uint64_t count = ~std::uint64_t{0}) const {
    std::vector<std::int64_t> values(std::min(count, source->examples() - first));
    const ColumnValues wanted{*source->FindColumn(name), values};
    source->ReadColumns(ExampleId(first), {&wanted, 1});
    return values;
  }

  std::shared_ptr<const RecordsDataset> dataset;
  std::shared_ptr<const Source> source;

 private:
  BufferPool pool_;
};

/// All values of a tensor of a batch.
template <class T>
std::vector<T> RecordValues(const PackedBatch& batch, const std::string& path) {
  const auto tensor = batch.Find(path);
  REQUIRE(tensor.has_value());
  const auto bytes = batch.tensor_bytes(*tensor);
  const auto* const begin = reinterpret_cast<const T*>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(T)};
}

}  // namespace millrace::test
