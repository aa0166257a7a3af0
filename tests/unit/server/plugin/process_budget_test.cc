#include "server/plugin/process_budget.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>
#include <vector>

namespace millrace {
namespace {

/// Holds one permit, which it gives up when it is asked.
class Holder final : public ProcessHolder {
 public:
  bool GiveUpIdle() override {
    MutexLock lock(mutex);
    ++asked;
    if (permit == nullptr) return false;
    permit.reset();
    return true;
  }
  Mutex mutex;
  std::shared_ptr<void> permit;
  int asked = 0;
};

TEST_CASE("so many processes run, and an idle one makes room for another", "[plugin]") {
  const auto budget = std::make_shared<ProcessBudget>(2);
  const auto holder = std::make_shared<Holder>();
  budget->Join(holder);
  holder->permit = *budget->Take({});
  auto second = budget->Take({});
  REQUIRE(second.ok());
  CHECK(holder->asked == 0);
  CHECK(budget->Take({}).ok());  // the holder gave up its own
  CHECK(holder->permit == nullptr);
  CHECK_FALSE(budget->is_wanted());
}

TEST_CASE("who waits for a process gets the next one, or is stopped", "[plugin]") {
  const auto budget = std::make_shared<ProcessBudget>(1);
  auto first = budget->Take({});
  REQUIRE(first.ok());
  std::atomic<bool> taken = false;
  std::thread other([&] {
    const auto permit = budget->Take({});
    taken = permit.ok();
  });
  while (!budget->is_wanted()) std::this_thread::yield();
  CHECK_FALSE(taken);
  first->reset();
  other.join();
  CHECK(taken);
  std::stop_source stop;
  stop.request_stop();
  first = budget->Take({});
  CHECK(budget->Take(stop.get_token()).status().code() == StatusCode::kCancelled);
}

}  // namespace
}  // namespace millrace
