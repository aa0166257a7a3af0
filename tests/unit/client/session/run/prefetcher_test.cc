#include <catch2/catch.hpp>

#include "client/session/run/prefetcher.h"
#include "common/operations/consumer_program.h"
#include "tests/unit/client/session/run/fake_service.h"

namespace millrace::client {
namespace {

/// A host device that counts the batches that it expands.
class CountingDevice final : public Device {
 public:
  std::string_view name() const override { return "host"; }
  Result<std::shared_ptr<const DeliveredBatch>> Expand(
      const std::shared_ptr<const PackedBatch>& packed, const Delivery& delivery,
      RowRange rows) override {
    auto expanded = host_->Expand(packed, delivery, rows);
    MutexLock lock(mutex_);
    ++expanded_;
    changed_.NotifyAll();
    return expanded;
  }
  /// Waits until `at` batches are expanded. Returns whether no more follow soon after.
  bool Stops(int at) {
    MutexLock lock(mutex_);
    while (expanded_ < at) changed_.Wait(mutex_);
    changed_.WaitFor(mutex_, std::chrono::milliseconds(30));
    return expanded_ == at;
  }

 private:
  const std::shared_ptr<Device> host_ = MakeHostDevice();
  Mutex mutex_;
  CondVar changed_;
  int expanded_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

struct Prefetching {
  explicit Prefetching(const ExpandDepth& depth) : prefetcher(device, 1, depth, tracer, [] {}) {
    for (std::uint64_t step = 0; step < 6; ++step) {
      prefetcher.Push(step, NumbersBatch(0, {step * 100, 100}));
    }
  }

  std::shared_ptr<CountingDevice> device = std::make_shared<CountingDevice>();
  Tracer tracer{std::make_shared<SystemClock>()};
  Prefetcher prefetcher;
};

TEST_CASE("so many batches are expanded ahead of the loop, and no more", "[prefetcher]") {
  Prefetching p({.batches = 3});
  CHECK(p.device->Stops(3));
  REQUIRE(p.prefetcher.TryTake(0).has_value());
  CHECK(p.device->Stops(4));
}

TEST_CASE("with none ahead of the loop, the loop expands each batch itself", "[prefetcher]") {
  Prefetching p({.batches = 0});
  CHECK(p.device->Stops(0));
  for (std::uint64_t step = 0; step < 6; ++step) {
    CHECK(!p.prefetcher.TryTake(step).has_value());
    const std::shared_ptr<const PackedBatch> packed = p.prefetcher.TakePacked(step);
    REQUIRE(packed != nullptr);
    CHECK(p.prefetcher.Expand(packed).ok());
    CHECK(p.device->Stops(static_cast<int>(step) + 1));
  }
}

TEST_CASE("so many bytes are expanded ahead of the loop, the first batch whatever its size",
          "[prefetcher]") {
  // A batch is 100 numbers as int32, with padding.
  Prefetching two({.batches = 6, .bytes = 449});
  CHECK(two.device->Stops(2));
  REQUIRE(two.prefetcher.TryTake(0).has_value());
  CHECK(two.device->Stops(3));
  Prefetching one({.batches = 6, .bytes = 1});
  CHECK(one.device->Stops(1));
}

TEST_CASE("an expansion says when each operation ran, while a trace is taken",
          "[prefetcher][trace]") {
  const auto clock = std::make_shared<SystemClock>();
  Tracer tracer(clock);
  Prefetcher prefetcher(MakeHostDevice(), /*micro=*/2, {}, tracer, [] {});
  const std::shared_ptr<const PackedBatch> batch = NumbersBatch(0, {0, 10});
  ConsumerProgram program;
  program.text.definitions = {
      {"x",
       "one_hot",
       {"number"},
       Params({{"depth", std::int64_t{10}}, {"dtype", std::string("float32")}})}};
  program.text.outputs = {{"x"}};
  prefetcher.SetDelivery(
      Delivery::Make({batch->tensors().front().spec}, std::move(program), DType::kInt32).value());
  CHECK(prefetcher.Expand(batch)->operations.empty());

  tracer.Start(1, clock->Now() + std::chrono::minutes(1));
  const Result<ExpandedBatch> expanded = prefetcher.Expand(batch);
  REQUIRE(expanded.ok());
  std::vector<std::string> names;
  Time last = expanded->expand_began;
  for (const OperationTime& operation : expanded->operations) {
    names.emplace_back(operation.name);
    CHECK(operation.began >= last);
    CHECK(operation.ended >= operation.began);
    last = operation.ended;
  }
  CHECK(last <= expanded->expanded);
  CHECK(names ==
        std::vector<std::string>{"widen", "one_hot", "one_hot", "widen", "one_hot", "one_hot"});
}

}  // namespace
}  // namespace millrace::client
