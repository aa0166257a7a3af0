// Plans with a cache, and the same plans without one: what is built again, and whether the bytes
// are the same.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/cache/built_examples.h"
#include "server/plan/plan_library.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {

using EpochBytes = std::vector<std::vector<std::byte>>;

/// All batches of two epochs, as bytes.
inline EpochBytes TwoEpochs(const Plan& plan) {
  EpochBytes all;
  const auto scratch = plan.NewScratch();
  const auto steps = plan.facts().Steps(1);
  REQUIRE(steps.ok());
  Position at = *steps->Start({0, 0});
  while (at.epoch < 2) {
    const auto batch = plan.Batch(at.epoch, steps->RankExamples(at, 0), *scratch);
    INFO(batch.status().message());
    REQUIRE(batch.ok());
    all.emplace_back((*batch)->bytes().begin(), (*batch)->bytes().end());
    at = steps->Next(at);
  }
  return all;
}

/// Whether both are the same. Nobody wants to see them if they are not.
inline bool Same(const EpochBytes& one, const EpochBytes& other) { return one == other; }

/// A folder with a dataset, and what was kept of its examples.
struct CachedWorld {
  TempDir dir;
  std::filesystem::path data = dir / "data";
  std::filesystem::path folder = dir / "kept";
  std::shared_ptr<BuiltExamples> kept = std::make_shared<BuiltExamples>(std::uint64_t{64} << 20);
  std::string source = "proof_states";
  std::string level = "memory";

  PlanLibraryOptions Options(std::shared_ptr<BuiltExamples> examples) const {
    PlanLibraryOptions options;
    options.kinds = ProductKinds();
    options.datasets["d"].dir = data;
    options.cache_dir = dir / "indexes";
    options.examples = std::move(examples);
    return options;
  }
  PipelineSource Text(const std::string& more) const {
    PipelineSource text;
    text.yaml = "millrace: 1\ndataset: d\nsource: " + source + "\n" + more;
    if (more.find("batch:") == std::string::npos) {
      text.yaml += "batch: {size: 4, remainder: keep}\n";
    }
    return text;
  }

  EpochBytes Uncached(const std::string& more = "") const {
    PlanLibrary library(Options(nullptr), MakeNullLogger());
    const auto plan = library.Compile(Text(more));
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return TwoEpochs(**plan);
  }
  /// Opens the dataset anew, and builds two epochs with a cache. The bytes have to be those that
  /// are built without one.
  void Run(const std::string& more = "") const {
    PlanLibrary library(Options(kept), MakeNullLogger());
    const auto plan = library.Compile(Text(more + "cache: {examples: " + level + "}\n"));
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    CHECK(Same(TwoEpochs(**plan), Uncached(more)));
  }
  /// How many examples were built for that.
  std::uint64_t Builds(const std::string& more = "") const {
    const std::uint64_t before = kept->stats().builds;
    Run(more);
    return kept->stats().builds - before;
  }

  DiskCacheOptions disk = {.folder = folder, .limit_bytes = 8 << 20};
  std::shared_ptr<CacheFiles> files = std::make_shared<SystemCacheFiles>();
  /// A process that keeps examples on disk too, and has read what is there.
  std::shared_ptr<BuiltExamples> NewProcess(std::uint64_t memory_bytes = 64 << 20) const {
    auto examples = std::make_shared<BuiltExamples>(
        memory_bytes, std::make_unique<DiskCache>(disk, files, std::make_shared<SystemClock>(),
                                                  MakeNullLogger()));
    examples->Flush();
    return examples;
  }
  void Restart(std::uint64_t memory_bytes = 64 << 20) {
    level = "disk";
    kept.reset();
    kept = NewProcess(memory_bytes);
  }
};

}  // namespace millrace::test
