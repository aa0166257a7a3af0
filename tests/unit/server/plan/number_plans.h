// Plans over a dataset of numbers (tests/support/number_kind.h).
#pragma once

#include <catch2/catch.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"
#include "tests/support/number_kind.h"

namespace millrace::test {

/// Plans over one source of a dataset of numbers, by which batches are cut.
class NumberPlans {
 public:
  explicit NumberPlans(const std::vector<std::int64_t>& numbers, std::string source = "numbers")
      : source_(std::move(source)),
        numbers_(numbers),
        library_(Options(numbers), MakeNullLogger()) {}

  Result<std::shared_ptr<const Plan>> Compile(const std::string& more) {
    return CompileText("millrace: 1\ndataset: n\nsource: " + source_ + "\n" + more);
  }
  /// The same for the whole text of a pipeline. The dataset is called `n`.
  Result<std::shared_ptr<const Plan>> CompileText(const std::string& yaml) {
    return CompileVariant(yaml, "");
  }
  /// The same with a variant; empty: none.
  Result<std::shared_ptr<const Plan>> CompileVariant(const std::string& yaml,
                                                     const std::string& variant) {
    PipelineSource text;
    text.yaml = yaml;
    text.variant = variant;
    return library_.Compile(text);
  }
  /// Where measured columns may be kept.
  std::vector<std::filesystem::path> ColumnFolders() const { return library_.ColumnFoldersOf("n"); }
  std::shared_ptr<const Plan> MustCompile(const std::string& more) {
    const auto plan = Compile(more);
    INFO(more << "\n" << plan.status().message());
    REQUIRE(plan.ok());
    return *plan;
  }
  std::string ErrorOf(const std::string& more) {
    const auto plan = Compile(more);
    REQUIRE_FALSE(plan.ok());
    return plan.status().message();
  }
  std::int64_t operator[](ExampleId id) const { return numbers_.at(id.value()); }
  /// How often columns were measured.
  int measured() const { return measured_; }

 private:
  PlanLibraryOptions Options(const std::vector<std::int64_t>& numbers) {
    WriteNumbers(dir_ / "numbers", numbers);
    PlanLibraryOptions options;
    options.kinds = ProductKinds().With(MakeNumberKind());
    options.datasets["n"].dir = dir_ / "numbers";
    options.cache_dir = dir_ / "cache";
    options.index_threads = 1;
    options.measuring = [this](const std::string&, std::uint64_t done, std::uint64_t all) {
      measured_ += done == all ? 1 : 0;
    };
    return options;
  }

  TempDir dir_;
  std::string source_;
  int measured_ = 0;
  std::vector<std::int64_t> numbers_;
  PlanLibrary library_;
};

/// 0 to 99, each 3 times, in a scattered order.
inline std::vector<std::int64_t> Scattered() {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < 300; ++i) numbers.push_back(i * 37 % 100);
  return numbers;
}

/// The batches of an epoch for some ranks, in the order of steps and ranks.
inline std::vector<std::shared_ptr<const PackedBatch>> ReadEpoch(const Plan& plan,
                                                                 std::uint64_t epoch,
                                                                 std::uint32_t world_size) {
  std::vector<std::shared_ptr<const PackedBatch>> batches;
  const StepArithmetic steps = *plan.facts().Steps(world_size);
  const auto scratch = plan.NewScratch();
  for (Position at{epoch, 0}; at.epoch == epoch; at = steps.Next(at)) {
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const ExampleRange units = steps.RankExamples(at, rank);
      auto batch = plan.Batch(epoch, units, *scratch);
      REQUIRE(batch.ok());
      CHECK((*batch)->info().first_example == units.first);
      CHECK((*batch)->info().planned_examples ==
            (*batch)->examples() + (*batch)->info().dropped.size());
      if (units.count > 0) batches.push_back(*std::move(batch));
    }
  }
  return batches;
}

}  // namespace millrace::test
