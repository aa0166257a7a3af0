// Sources of datasets of tokens for tests, without plans.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/batch_writer.h"
#include "server/kinds/tokens/tokens_source.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"
#include "tests/unit/server/kinds/tokens/tokens_folder.h"

namespace millrace::test {

/// The parts of a plan; `keys` is JSON.
inline PlanParts TokenParts(const std::string& keys = "{}",
                            const std::vector<std::string>& excluded = {}) {
  PlanParts parts;
  parts.Edit<SourcePart>() = {"tokens", ParamTree{keys}, {}};
  parts.Edit<ExcludePart>().files = excluded;
  return parts;
}

inline Result<std::shared_ptr<const Source>> MakeTokenSource(
    const std::shared_ptr<const TokensDataset>& dataset, const PlanParts& parts) {
  return TokensSources().Make("tokens", dataset, parts);
}

/// A source of tokens, with memory for its batches.
class TokenSourceTest {
 public:
  explicit TokenSourceTest(const std::filesystem::path& dir, const std::string& keys = "{}",
                           const std::vector<std::string>& excluded = {})
      : TokenSourceTest(MustOpenTokens(dir), TokenParts(keys, excluded)) {}
  TokenSourceTest(std::shared_ptr<const TokensDataset> of, const PlanParts& parts)
      : dataset(std::move(of)) {
    auto made = MakeTokenSource(dataset, parts);
    INFO(made.status().message());
    REQUIRE(made.ok());
    source = *std::move(made);
  }

  /// The batch of some documents, or the error.
  Result<std::shared_ptr<const PackedBatch>> Build(const std::vector<std::uint64_t>& documents) {
    auto writer = BatchWriter::Create(source->tensors(), source->expand(), pool_);
    REQUIRE(writer.ok());
    writer->Begin({}, 0, 0, static_cast<std::uint32_t>(documents.size()));
    std::vector<ExampleId> ids;
    for (const std::uint64_t document : documents) ids.emplace_back(document);
    MILLRACE_RETURN_IF_ERROR(source->NewReader()->Append(ids, *writer));
    return writer->Seal();
  }
  std::shared_ptr<const PackedBatch> MustBuild(const std::vector<std::uint64_t>& documents) {
    auto batch = Build(documents);
    INFO(batch.status().message());
    REQUIRE(batch.ok());
    return *std::move(batch);
  }
  std::string ErrorOf(const std::vector<std::uint64_t>& documents) {
    const auto batch = Build(documents);
    REQUIRE_FALSE(batch.ok());
    CHECK(batch.status().code() == StatusCode::kDataLoss);
    return batch.status().message();
  }
  /// The rows of a batch.
  static Documents RowsOf(const PackedBatch& batch) {
    const std::size_t tokens = *batch.Find("tokens");
    const std::size_t splits = *batch.Find("tokens_splits");
    Documents rows;
    for (std::size_t row = 0; row < batch.examples(); ++row) {
      Tokens& one = rows.emplace_back();
      for (std::int64_t i = batch.ValueAt(splits, row); i < batch.ValueAt(splits, row + 1); ++i) {
        one.push_back(batch.ValueAt(tokens, static_cast<std::size_t>(i)));
      }
    }
    return rows;
  }
  /// All documents.
  Documents ReadAll() {
    std::vector<std::uint64_t> all(source->examples());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    return RowsOf(*MustBuild(all));
  }

  /// A column of some examples.
  Tokens Column(const std::string& name, std::uint64_t first = 0,
                std::uint64_t count = ~std::uint64_t{0}) const {
    Tokens values(std::min(count, source->examples() - first));
    const ColumnValues wanted{*source->FindColumn(name), values};
    source->ReadColumns(ExampleId(first), {&wanted, 1});
    return values;
  }

  std::shared_ptr<const TokensDataset> dataset;
  std::shared_ptr<const Source> source;

 private:
  BufferPool pool_;
};

/// Why no source is made.
inline Status RefusedSource(const std::filesystem::path& dir, const std::string& keys = "{}",
                            const std::vector<std::string>& excluded = {}) {
  const auto made = MakeTokenSource(MustOpenTokens(dir), TokenParts(keys, excluded));
  REQUIRE_FALSE(made.ok());
  return made.status();
}

}  // namespace millrace::test
