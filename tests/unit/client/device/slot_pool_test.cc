#include <catch2/catch.hpp>

#include <future>

#include "client/device/slot_pool.h"
#include "tests/support/host_accelerator.h"

namespace millrace {
namespace {

using Limits = DeviceLimits;

/// A stream of a consumer that stays busy until it is released.
class BusyStream {
 public:
  explicit BusyStream(HostAccelerator& accelerator)
      : accelerator_(accelerator), handle(accelerator.NewStream()) {
    accelerator_.Queue(handle, [gate = gate_] { gate->get_future().wait(); });
  }
  ~BusyStream() {
    if (!open_) LetGo();
  }
  void LetGo() {
    open_ = true;
    gate_->set_value();
    CHECK(accelerator_.Synchronize(**accelerator_.RecordOn(handle)).ok());
  }

 private:
  HostAccelerator& accelerator_;
  std::shared_ptr<std::promise<void>> gate_ = std::make_shared<std::promise<void>>();
  bool open_ = false;

 public:
  const Accelerator::StreamHandle handle;
};

TEST_CASE("a slot that is given back is used again", "[device][slots]") {
  auto accelerator = std::make_shared<HostAccelerator>();
  SlotPool pool(accelerator, Limits{});
  Slot slot = *pool.Acquire(10'000);
  std::byte* const data = slot.data;
  CHECK(slot.capacity >= 10'000);
  pool.Release(std::move(slot));
  slot = *pool.Acquire(9'000);
  CHECK(slot.data == data);
  CHECK(slot.busy.empty());
  CHECK(accelerator->counts().allocations == 1);
  pool.Release(std::move(slot));
}

TEST_CASE("a slot is not kept for a batch of half its size", "[device][slots]") {
  auto accelerator = std::make_shared<HostAccelerator>();
  SlotPool pool(accelerator, Limits{});
  pool.Release(*pool.Acquire(1 << 20));
  Slot small = *pool.Acquire(1 << 16);
  CHECK(small.capacity == 1 << 16);
  pool.Release(std::move(small));
}

TEST_CASE("a busy slot is left alone while there is another, and waited for when there is none",
          "[device][slots]") {
  auto accelerator = std::make_shared<HostAccelerator>();
  SlotPool pool(accelerator, Limits{.slots = 2});
  BusyStream stream(*accelerator);
  Slot first = *pool.Acquire(5000);
  std::byte* const data = first.data;
  pool.ReleaseAfter(std::move(first), {stream.handle});
  Slot second = *pool.Acquire(5000);
  CHECK(second.data != data);
  CHECK(second.busy.empty());
  // There are no more slots than two: a loop that runs ahead of its device takes no more memory.
  Slot third = *pool.Acquire(5000);
  CHECK(third.data == data);
  REQUIRE(third.busy.size() == 1);
  CHECK_FALSE(accelerator->Passed(*third.busy[0]));
  CHECK(pool.stats().slots == 2);
  // Slots that are held do not keep the pool from adding another one.
  Slot fourth = *pool.Acquire(5000);
  CHECK(fourth.busy.empty());
  CHECK(pool.stats().slots == 3);
  stream.LetGo();
  for (Slot* slot : {&second, &third, &fourth}) pool.Release(std::move(*slot));
}

TEST_CASE("bytes are a limit as slots are", "[device][slots]") {
  auto accelerator = std::make_shared<HostAccelerator>();
  SlotPool pool(accelerator, Limits{.slots = 100, .bytes = 100'000});
  BusyStream stream(*accelerator);
  for (int i = 0; i < 2; ++i) pool.ReleaseAfter(*pool.Acquire(40'000), {stream.handle});
  Slot third = *pool.Acquire(40'000);
  CHECK(third.busy.size() == 1);
  CHECK(accelerator->counts().allocated_bytes <= 100'000);
  stream.LetGo();
  pool.Release(std::move(third));
}

TEST_CASE("slots of another size make room, after what reads them", "[device][slots]") {
  auto accelerator = std::make_shared<HostAccelerator>();
  SlotPool pool(accelerator, Limits{.slots = 1});
  BusyStream stream(*accelerator);
  pool.ReleaseAfter(*pool.Acquire(1 << 16), {stream.handle});
  auto larger = std::async(std::launch::async, [&] { return pool.Acquire(1 << 20); });
  CHECK(larger.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  CHECK(accelerator->counts().allocated_bytes == 1 << 16);
  stream.LetGo();
  Slot slot = *larger.get();
  CHECK(accelerator->counts().allocated_bytes == 1 << 20);
  pool.Release(std::move(slot));
}

TEST_CASE("a device without memory says what holds it", "[device][slots]") {
  auto accelerator =
      std::make_shared<HostAccelerator>(HostAcceleratorOptions{.memory_bytes = 100'000});
  SlotPool pool(accelerator, Limits{});
  Slot first = *pool.Acquire(60'000);
  const auto second = pool.Acquire(60'000);
  REQUIRE_FALSE(second.ok());
  CHECK(second.status().code() == StatusCode::kResourceExhausted);
  CHECK_THAT(second.status().message(),
             Catch::Contains("host:0 has no memory for a batch of 60000 bytes, beside 1 slots"));
  pool.Release(std::move(first));
  Slot third = *pool.Acquire(90'000);  // it takes the place of the first slot
  CHECK(pool.stats().slots == 1);
  pool.Release(std::move(third));
}

TEST_CASE("a stream that is gone is as the default stream", "[device][slots]") {
  auto accelerator = std::make_shared<HostAccelerator>();
  SlotPool pool(accelerator, Limits{});
  pool.ReleaseAfter(*pool.Acquire(100), {Accelerator::StreamHandle{77}});
  Slot slot = *pool.Acquire(100);
  CHECK(accelerator->counts().allocations == 1);
  pool.Release(std::move(slot));
}

}  // namespace
}  // namespace millrace
