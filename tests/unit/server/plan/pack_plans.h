// Plans that pack runs of numbers, which are documents, and checks of their rows.
#pragma once

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/batch/batch.h"
#include "server/plan/plan.h"
#include "server/source/document_packs.h"
#include "tests/support/number_kind.h"
#include "tests/unit/server/plan/number_plans.h"

namespace millrace::test {

/// Document, begin and length.
using PlainPiece = std::vector<std::uint64_t>;
using PlainRow = std::vector<PlainPiece>;

/// Plans over runs of these lengths, which are documents.
class PackPlans : public NumberPlans {
 public:
  explicit PackPlans(const std::vector<std::int64_t>& lengths) : NumberPlans(lengths, "runs") {}
};

/// A run that cannot be built.
inline constexpr std::int64_t kNoRun = kLongestRun + 1;

inline const std::string kFiveEach = "batch: {size: 5, remainder: keep}\n";

/// The pieces of a row, as its source tells them.
inline PlainRow PlainPiecesOf(const Plan& plan, std::uint64_t row) {
  const auto pieces = plan.source()->packs()->PiecesOf(ExampleId(row));
  REQUIRE(pieces.ok());
  PlainRow plain;
  for (const RowPiece& piece : *pieces) {
    plain.push_back({piece.document.value(), piece.begin, piece.length});
  }
  return plain;
}

/// The numbers of a row of a ragged tensor.
inline std::vector<std::int64_t> RaggedRow(const PackedBatch& batch, const char* path,
                                           const char* splits, std::size_t row) {
  std::vector<std::int64_t> values;
  const std::int64_t end = batch.ValueAt(*batch.Find(splits), row + 1);
  for (std::int64_t i = batch.ValueAt(*batch.Find(splits), row); i < end; ++i) {
    values.push_back(batch.ValueAt(*batch.Find(path), static_cast<std::size_t>(i)));
  }
  return values;
}

/// Checks all tensors of a row of a batch against its pieces.
inline void CheckPackedRow(const PackPlans& plans, const PackedBatch& batch, std::size_t row,
                           const PlainRow& pieces) {
  std::vector<std::int64_t> run, minus, lengths, documents, begins, next;
  for (const PlainPiece& piece : pieces) {
    const std::int64_t number = plans[ExampleId(piece[0])];
    const auto begin = static_cast<std::int64_t>(piece[1]);
    const std::int64_t end = begin + static_cast<std::int64_t>(piece[2]);
    for (std::int64_t i = begin; i < end; ++i) {
      run.push_back(RunElement(number, i));
      minus.push_back(-RunElement(number, i));
    }
    documents.push_back(static_cast<std::int64_t>(piece[0]));
    begins.push_back(begin);
    lengths.push_back(end - begin);
    next.push_back(end == number ? -100 : RunElement(number, end));
  }
  CHECK(RaggedRow(batch, "run", "run_splits", row) == run);
  CHECK(RaggedRow(batch, "pack.lengths", "pack.lengths_splits", row) == lengths);
  if (batch.Find("run/minus")) CHECK(RaggedRow(batch, "run/minus", "run_splits", row) == minus);
  const auto check = [&](const char* path, const std::vector<std::int64_t>& expected) {
    if (batch.Find(path)) CHECK(RaggedRow(batch, path, "pack.lengths_splits", row) == expected);
  };
  check("pack.documents", documents);
  check("pack.begins", begins);
  check("pack.next", next);
  CHECK(batch.ValueAt(*batch.Find("example_id"), row) ==
        static_cast<std::int64_t>(batch.info().example_ids[row].value()));
}

/// The numbers of all rows of an epoch, after a check of what they have.
inline std::vector<std::uint64_t> CheckedPackedRows(const PackPlans& plans, const Plan& plan,
                                                    std::uint64_t epoch = 0,
                                                    std::uint32_t world_size = 1) {
  std::vector<std::uint64_t> rows;
  for (const auto& batch : ReadEpoch(plan, epoch, world_size)) {
    CHECK(batch->info().dropped.empty());
    for (std::size_t row = 0; row < batch->examples(); ++row) {
      const std::uint64_t id = batch->info().example_ids[row].value();
      CheckPackedRow(plans, *batch, row, PlainPiecesOf(plan, id));
      rows.push_back(id);
    }
  }
  return rows;
}

/// 0, 1, … count - 1.
inline std::vector<std::uint64_t> NumbersBelow(std::uint64_t count) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(i);
  return all;
}

}  // namespace millrace::test
