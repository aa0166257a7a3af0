#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

/// A session with a loop that takes a batch every 50 ms, and a worker that brings what it is asked
/// for, as far as it fits into the window; but nothing while it stands still.
class Training {
 public:
  explicit Training(bool tune, std::uint64_t batch_bytes = 4'000'000)
      : batch_bytes_(batch_bytes), m_(Options(tune, batch_bytes)) {
    m_.Welcome();
    worker_ = m_.Join(1, {.slots = 400, .batch_ms = 0.5});
  }

  /// The worker stands still so long, at the end of each such time.
  int still_ms = 0;
  int every_ms = 1000;
  int step_ms = 50;
  double batches_a_second = 2000;  // of the worker
  int expand_ms = 0;               // so long the loop waits for a batch that is there

  /// Returns the share of the time in which the loop waited.
  double Run(double seconds) {
    const double before = m_.state->stats(m_.now).total_waited_seconds();
    const auto steps = static_cast<int>(seconds * 100);
    for (int i = 0; i < steps; ++i) TenMilliseconds();
    return (m_.state->stats(m_.now).total_waited_seconds() - before) / seconds;
  }
  std::uint64_t window() const { return m_.state->window(); }
  std::uint64_t most_held() { return std::exchange(most_held_, 0); }
  std::size_t trims() const { return trims_; }
  const std::optional<v1::Tuning>& told() const { return told_; }

 private:
  static Machine::Options Options(bool tune, std::uint64_t batch_bytes) {
    Machine::Options options;
    options.steps = {.examples = 10'000'000, .size = 5, .world_size = 2};
    options.prefetch_bytes = 100 * batch_bytes;
    options.max_batch_bytes = batch_bytes;
    options.tune = tune;
    return options;
  }
  /// The worker builds what is asked for, and keeps what the consumer has no memory for.
  void Build(bool still) {
    budget_ = std::min(budget_ + 0.01 * batches_a_second, 20.0);
    for (const std::uint64_t step : m_.AskedOf(1)) {
      if (budget_ < 1 || still) break;
      if (built_.insert(step).second) --budget_;
    }
    while (!still && !built_.empty() && *built_.begin() < m_.state->next() + m_.state->window()) {
      REQUIRE(m_.Arrive(worker_, *built_.begin(), batch_bytes_) == Verdict::kTaken);
      built_.erase(built_.begin());
    }
    if (ms_ % 50 == 0) Say();
  }
  void Say() {
    Word word;
    word.batch_ms = 1000 / batches_a_second;
    word.slots = static_cast<std::uint32_t>(std::max(2.0, 0.2 * batches_a_second));
    word.built.assign(built_.begin(), built_.end());
    m_.Say(1, word);
  }
  void TenMilliseconds() {
    ms_ += 10;
    Build(ms_ % every_ms >= every_ms - still_ms);
    most_held_ = std::max(most_held_, m_.state->held_batches());
    busy_ms_ -= 10;
    if (busy_ms_ <= -expand_ms && m_.state->holds(m_.state->next())) {
      m_.state->SetWaiting(false, m_.now);
      m_.TakeBatch();
      busy_ms_ = step_ms;
    } else if (busy_ms_ <= 0) {
      m_.state->SetWaiting(true, m_.now);
    }
    const v1::Report report = m_.PassAttached(10 * kMs);
    if (report.has_tuning()) told_ = report.tuning();
    trims_ += m_.Take<TrimMemory>().size();
    m_.TakeWants();
    m_.pending.clear();
  }

  const std::uint64_t batch_bytes_;
  Machine m_;
  StreamId worker_ = 0;
  std::set<std::uint64_t> built_;  // by the worker, and not sent
  double budget_ = 0;              // batches that the worker may build now
  int busy_ms_ = 0;
  int ms_ = 0;
  std::uint64_t most_held_ = 0;
  std::size_t trims_ = 0;
  std::optional<v1::Tuning> told_;
};

TEST_CASE("what a loop does not need is not received ahead", "[session][tune]") {
  Training training(true);
  training.Run(10);
  CHECK(training.window() == 33);  // of 101 that fit
  CHECK(training.most_held() <= 33);
  CHECK(training.Run(50) == 0);
  CHECK(training.window() <= 7);
  CHECK(training.trims() == 1);
  training.most_held();
  CHECK(training.Run(600) == 0);
  CHECK(training.most_held() <= 7);
  REQUIRE(training.told());
  REQUIRE(training.told()->decisions_size() == 1);
  CHECK(training.told()->decisions(0).outcome() == "kept");
  CHECK(training.told()->settings(0).name() == "prefetch_bytes");
  CHECK(training.told()->settings(0).most() == 400e6);
}

TEST_CASE("a stock that still grows shows what is needed, too", "[session][tune]") {
  Training training(true);
  training.batches_a_second = 22;
  training.Run(20);
  CHECK(training.most_held() < 60);
  training.Run(30);
  CHECK(training.window() <= 8);
  CHECK(training.Run(60) == 0);
}

TEST_CASE("waits for the expansion of batches that are there change nothing", "[session][tune]") {
  Training training(true);
  training.expand_ms = 10;
  CHECK(training.Run(50) > 0.1);
  CHECK(training.window() <= 7);
  REQUIRE(training.told());
  CHECK(training.told()->decisions_size() == 1);
}

TEST_CASE("a session whose worker stands still now and then receives further ahead again",
          "[session][tune]") {
  Training training(true);
  training.Run(60);
  REQUIRE(training.window() <= 7);
  // The loop needs ten batches while the worker stands still.
  training.still_ms = 500;
  training.every_ms = 3000;
  CHECK(training.Run(5) > 0.01);
  training.Run(40);
  CHECK(training.window() >= 12);
  CHECK(training.Run(60) < 0.01);
  const std::uint64_t before =
      training.told()->decisions(training.told()->decisions_size() - 1).number();
  CHECK(training.Run(600) < 0.01);
  const std::uint64_t after =
      training.told()->decisions(training.told()->decisions_size() - 1).number();
  CHECK(after - before <= 2);
}

TEST_CASE(
    "a faster loop gets the bytes back that it did not need before, although they are never full",
    "[session][tune]") {
  Training training(true);
  training.Run(60);
  REQUIRE(training.window() <= 7);
  // Between two visits of the worker, each of which fills the bytes ahead, the loop takes all that
  // is held.
  training.step_ms = 10;
  training.still_ms = 190;
  training.every_ms = 200;
  training.Run(8);
  CHECK(training.window() == 33);
  CHECK(training.Run(60) < 0.01);
}

TEST_CASE("small batches cover the time until a lost worker is noticed", "[session][tune]") {
  Training training(true, 1000);
  training.Run(100);
  // 20 batches a second, for 4 s.
  CHECK(training.window() >= 80);
  CHECK(training.Run(100) == 0);
}

TEST_CASE("nothing is learnt while more is held than is received ahead now", "[session][tune]") {
  // 33 batches are held when only 6 are received ahead from then on. A second later some are left
  // of them, which last for minutes at one in twenty seconds.
  Training training(true);
  training.Run(21);
  REQUIRE(training.window() <= 7);
  training.step_ms = 20'000;
  training.Run(100);
  CHECK(training.told()->decisions_size() == 1);
  CHECK(training.told()->decisions(0).outcome() == "trying");
}

TEST_CASE("a session that is not tuned keeps what it was given", "[session][tune]") {
  Training training(false);
  training.Run(100);
  CHECK(training.window() == 101);
  REQUIRE(training.told());
  CHECK(training.told()->settings(0).pinned());
  CHECK(training.told()->decisions_size() == 0);
}

}  // namespace
}  // namespace millrace::client
