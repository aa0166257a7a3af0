#include "server/web/shared_status.h"
#include "tests/support/fake_clock.h"

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace millrace::test {
namespace {

SharedStatus::Text Number(int number) {
  return std::make_shared<const std::string>(std::to_string(number));
}

TEST_CASE("a status is built at most once a second", "[web]") {
  const auto clock = std::make_shared<FakeClock>();
  int built = 0;
  SharedStatus status([&] { return Number(++built); }, clock);
  CHECK(**status.Get() == "1");
  clock->Advance(std::chrono::milliseconds(999));
  CHECK(**status.Get() == "1");
  clock->Advance(std::chrono::milliseconds(1));
  CHECK(**status.Get() == "2");
}

TEST_CASE("an error is an answer for a second too", "[web]") {
  const auto clock = std::make_shared<FakeClock>();
  int asked = 0;
  SharedStatus status(
      [&]() -> Result<SharedStatus::Text> {
        if (++asked == 1) return Unavailable("gone");
        return Number(asked);
      },
      clock);
  CHECK(status.Get().status().code() == StatusCode::kUnavailable);
  CHECK_FALSE(status.Get().ok());
  CHECK(asked == 1);
  clock->Advance(std::chrono::seconds(1));
  CHECK(**status.Get() == "2");
}

TEST_CASE("those who ask meanwhile share the answer, and few may wait", "[web]") {
  std::atomic<int> built = 0;
  std::latch begun(1);
  std::latch may_end(1);
  SharedStatus status(
      [&]() -> Result<SharedStatus::Text> {
        begun.count_down();
        may_end.wait();
        return Number(++built);
      },
      std::make_shared<FakeClock>());
  std::vector<Result<SharedStatus::Text>> answers(SharedStatus::kMostWaiting + 8,
                                                  Internal("no answer"));
  std::atomic<int> refused = 0;
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { answers[0] = status.Get(); });
    begun.wait();
    for (std::size_t i = 1; i < answers.size(); ++i) {
      threads.emplace_back([&, i] {
        answers[i] = status.Get();
        if (!answers[i].ok()) ++refused;
      });
    }
    while (refused < 7) std::this_thread::yield();
    may_end.count_down();
  }
  CHECK(built == 1);
  CHECK(refused == 7);
  for (const auto& answer : answers) {
    if (answer.ok()) {
      CHECK(**answer == "1");
    } else {
      CHECK(answer.status().code() == StatusCode::kResourceExhausted);
    }
  }
}

}  // namespace
}  // namespace millrace::test
