// A plan without a dataset, for tests of code that only passes batches on. Example i of n is the
// number i, the order is that of the numbers, and a batch holds its example ids.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "common/system/mutex.h"
#include "server/plan/plan.h"

namespace millrace::test {

class FakePlan final : public Plan {
 public:
  explicit FakePlan(StepOptions steps, std::uint64_t seed = 1)
      : steps_(steps), facts_(FactsOf(steps, seed)) {
    TensorSpec spec;
    spec.path = "example_id";
    spec.dtype = DType::kUint64;
    spec.dimension = "batch";
    spec.max = ~std::uint64_t{0} >> 1;
    tensors_ = {spec};
  }

  const PlanFacts& facts() const override { return facts_; }
  const std::vector<TensorSpec>& tensors() const override { return tensors_; }
  const ExpandSpec& expand() const override { return expand_; }
  const PlanCounts& counts() const override { return counts_; }
  std::shared_ptr<const std::string> static_bytes() const override { return static_bytes_; }
  const PlannedOrder& planned_order() const override { return order_; }
  std::vector<ExampleId> ExamplesOf(std::uint64_t, ExampleRange units) const override {
    std::vector<ExampleId> examples;
    for (std::uint64_t i = 0; i < units.count; ++i) examples.emplace_back(units.first + i);
    return examples;
  }
  bool Selects(ExampleId example) const override { return example.value() < steps_.examples; }
  ExamplePlaces PlacesOf(std::uint64_t, ExampleId example) const override {
    return {{{example.value(), 0}}};
  }

  Result<std::shared_ptr<const PackedBatch>> Batch(std::uint64_t epoch, ExampleRange range,
                                                   BatchScratch& scratch) const override {
    auto* own = dynamic_cast<Scratch*>(&scratch);
    if (own != nullptr && own->plan != this) return Internal("the scratch belongs to another plan");
    if (own != nullptr) ++own->builds;
    if (on_build) on_build();
    if (range.first + range.count > steps_.examples) {
      return OutOfRange("places beyond the epoch's " + std::to_string(steps_.examples));
    }
    MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer, BatchWriter::Create(tensors_, expand_, *pool_));
    writer.Begin(facts_.fingerprint(), epoch, range.first, range.count);
    for (std::uint32_t i = 0; i < range.count; ++i) {
      writer.AppendOne(0, static_cast<std::int64_t>(range.first + i));
      writer.EndExample(ExampleId(range.first + i));
    }
    return writer.Seal();
  }
  Result<std::shared_ptr<const PackedBatch>> BatchOf(std::span<const ExampleId>, std::uint64_t,
                                                     BatchScratch&) const override {
    return Unimplemented("a fake plan has no examples by id");
  }
  std::unique_ptr<BatchScratch> NewScratch() const override {
    auto scratch = std::make_unique<Scratch>();
    scratch->plan = this;
    return scratch;
  }

  bool by_row() const override { return on_slice != nullptr; }
  Result<std::unique_ptr<SlicedBatch>> BeginSlices(std::uint64_t epoch, ExampleRange range,
                                                   BatchScratch&) const override {
    return std::unique_ptr<SlicedBatch>(std::make_unique<Slices>(*this, epoch, range));
  }

  /// Called for each slice, with its rows, in the thread that builds it: false if it fails. Null:
  /// the plan does not make rows one by one. Set it before.
  std::function<bool(std::size_t first, std::size_t rows)> on_slice;
  /// Called in each build before anything else, in the thread that builds. Set it before.
  std::function<void()> on_build;
  /// The stage that every scratch is at.
  std::atomic<const char*> stage = "";
  /// The stages that a build goes through; each takes a second. Set it before.
  std::vector<const char*> stages;

 private:
  struct Scratch final : BatchScratch {
    const FakePlan* plan = nullptr;
    double builds = 0;
    std::string_view stage() const override { return plan->stage.load(); }
    std::vector<StageTime> stage_times() const override {
      std::vector<StageTime> times;
      for (const char* const name : plan->stages) times.push_back({name, builds});
      return times;
    }
  };

  /// Rows of which nothing is kept: the batch is built when they are joined.
  class Slices final : public SlicedBatch {
   public:
    Slices(const FakePlan& plan, std::uint64_t epoch, ExampleRange range)
        : plan_(plan), epoch_(epoch), range_(range) {}
    std::size_t rows() const override { return range_.count; }
    bool Build(std::size_t first, std::size_t count, BatchScratch& scratch) override {
      if (static_cast<Scratch&>(scratch).plan != &plan_) std::abort();
      const bool ok = plan_.on_slice(first, count);
      MutexLock lock(mutex_);
      built_ += count;
      if (!ok) failed_ = std::min(failed_, first);
      return ok;
    }
    Result<std::shared_ptr<const PackedBatch>> Join(BatchScratch& scratch) override {
      MutexLock lock(mutex_);
      if (failed_ < rows()) return Internal("row " + std::to_string(failed_) + " failed");
      if (built_ != rows()) return Internal("joined after " + std::to_string(built_) + " rows");
      return plan_.Batch(epoch_, range_, scratch);
    }

   private:
    const FakePlan& plan_;
    const std::uint64_t epoch_;
    const ExampleRange range_;
    Mutex mutex_;
    std::size_t built_ MILLRACE_GUARDED_BY(mutex_) = 0;
    std::size_t failed_ MILLRACE_GUARDED_BY(mutex_) = ~std::size_t{0};
  };

  static constexpr const char* kStaticBytes = "static tables";

  static PlanFacts FactsOf(const StepOptions& steps, std::uint64_t seed) {
    const Fingerprint fingerprint = {{1, 2}, {3, seed}};
    PlanFields fields{.fingerprint = fingerprint,
                      .order_fingerprint = fingerprint,
                      .static_digest = Xxh3(std::string_view(kStaticBytes)).ToHex(),
                      .steps = steps};
    fields.spec.mutable_steps()->set_examples(steps.examples);
    fields.spec.mutable_steps()->set_size(steps.size);
    fields.spec.mutable_steps()->set_global_size(steps.global_size);
    fields.spec.mutable_steps()->set_keep(steps.keep);
    fields.spec.set_order_fingerprint(fingerprint.ToString());
    return PlanFacts(std::move(fields));
  }

  const StepOptions steps_;
  const PlanFacts facts_;
  PlannedOrder order_;  // none
  std::vector<TensorSpec> tensors_;
  ExpandSpec expand_;
  PlanCounts counts_;
  std::shared_ptr<const std::string> static_bytes_ =
      std::make_shared<const std::string>(kStaticBytes);
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
};

}  // namespace millrace::test
