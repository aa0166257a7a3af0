// Many consumers that lose their dispatcher at once.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

constexpr Duration kStep = 10 * kMs;

/// Consumers of one dispatcher that answers, refuses, or hangs up after its first word.
class Crowd {
 public:
  enum class Dispatcher { kAnswers, kIsAway, kHangsUp };

  explicit Crowd(int consumers) {
    for (int i = 0; i < consumers; ++i) {
      Consumer& consumer = consumers_.emplace_back();
      consumer.random = std::make_unique<std::mt19937_64>(static_cast<std::uint64_t>(i));
      SessionMachineOptions options;
      options.address = "dispatcher:1";
      options.hello.set_job("j");
      options.hello.set_rank(static_cast<std::uint32_t>(i));
      options.hello.set_world_size(static_cast<std::uint32_t>(consumers));
      options.connect_timeout = std::chrono::hours(1);
      consumer.state = std::make_unique<SessionMachine>(
          options,
          [random = consumer.random.get()] {
            return std::uniform_real_distribution<double>()(*random);
          },
          MakeNullLogger());
      consumer.state->Start(now_);
    }
  }

  void Pass(Duration time, Dispatcher dispatcher) {
    for (const Time end = now_ + time; now_ < end; now_ = now_ + kStep) {
      for (Consumer& consumer : consumers_) Step(consumer, dispatcher);
    }
  }
  void HangUpOnAll() {
    for (Consumer& consumer : consumers_) {
      if (consumer.stream != 0) Close(consumer);
    }
    hung_up_ = now_;
    opened_.clear();
  }

  std::size_t connected() const {
    return static_cast<std::size_t>(std::count_if(consumers_.begin(), consumers_.end(),
                                                  [](const Consumer& c) { return c.stream != 0; }));
  }
  /// The most streams that are opened within any tenth of a second after `from`.
  std::size_t Peak(Time from) const {
    std::size_t peak = 0;
    for (auto first = opened_.lower_bound(from); first != opened_.end(); ++first) {
      std::size_t streams = 0;
      for (auto it = first; it != opened_.end() && it->first < first->first + 100 * kMs; ++it) {
        streams += it->second;
      }
      peak = std::max(peak, streams);
    }
    return peak;
  }
  std::size_t Opened() const {
    std::size_t streams = 0;
    for (const auto& [time, count] : opened_) streams += count;
    return streams;
  }
  Time now() const { return now_; }

 private:
  struct Consumer {
    std::unique_ptr<std::mt19937_64> random;
    std::unique_ptr<SessionMachine> state;
    StreamId stream = 0;  // on which the dispatcher answers
  };

  void Close(Consumer& consumer) {
    const StreamId stream = std::exchange(consumer.stream, 0);
    consumer.state->OnAttachClosed(stream, Unavailable("the dispatcher stops"), now_);
  }
  void Step(Consumer& consumer, Dispatcher dispatcher) {
    SessionMachine& state = *consumer.state;
    v1::AttachResponse heartbeat;
    heartbeat.set_term(100);
    if (consumer.stream != 0) state.OnAttachMessage(consumer.stream, heartbeat, now_);
    if (state.NextTick() <= now_) state.Tick(now_);
    for (const Action& action : state.TakeActions()) {
      if (const auto* sent = std::get_if<SendAttach>(&action)) {
        state.OnAttachWritten(sent->stream, now_);
      }
      const auto* opened = std::get_if<OpenAttach>(&action);
      if (opened == nullptr) continue;
      ++opened_[now_];
      consumer.stream = opened->stream;
      if (dispatcher == Dispatcher::kHangsUp)
        state.OnAttachMessage(opened->stream, heartbeat, now_);
      if (dispatcher != Dispatcher::kAnswers) Close(consumer);
    }
  }

  Time now_{std::chrono::seconds(1000)};
  Time hung_up_;
  std::vector<Consumer> consumers_;
  std::map<Time, std::size_t> opened_;  // streams by the time of opening
};

TEST_CASE(
    "a thousand consumers whose dispatcher restarts at once come back within a second, "
    "spread out",
    "[session][reconnect]") {
  Crowd crowd(1000);
  crowd.Pass(60 * kSecond, Crowd::Dispatcher::kAnswers);
  REQUIRE(crowd.connected() == 1000);
  crowd.HangUpOnAll();
  crowd.Pass(1100 * kMs, Crowd::Dispatcher::kAnswers);
  CHECK(crowd.connected() == 1000);
  CHECK(crowd.Opened() == 1000);
  CHECK(crowd.Peak(Time{}) < 200);
}

TEST_CASE("the longer a dispatcher was away the more its consumers spread",
          "[session][reconnect]") {
  Crowd crowd(1000);
  crowd.Pass(60 * kSecond, Crowd::Dispatcher::kAnswers);
  crowd.HangUpOnAll();
  crowd.Pass(30 * kSecond, Crowd::Dispatcher::kIsAway);
  CHECK(crowd.Opened() < 25 * 1000);
  const Time back = crowd.now();
  crowd.Pass(2600 * kMs, Crowd::Dispatcher::kAnswers);
  CHECK(crowd.connected() == 1000);
  CHECK(crowd.Peak(back) < 100);
}

TEST_CASE("a dispatcher that hangs up at once is asked seldom, as one that is away",
          "[session][reconnect]") {
  Crowd crowd(100);
  crowd.Pass(60 * kSecond, Crowd::Dispatcher::kAnswers);
  crowd.HangUpOnAll();
  crowd.Pass(60 * kSecond, Crowd::Dispatcher::kHangsUp);
  CHECK(crowd.Opened() < 100 * 50);
}

}  // namespace
}  // namespace millrace::client
