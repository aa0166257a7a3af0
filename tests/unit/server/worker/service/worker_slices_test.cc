// Threads of a worker that build one batch together.
#include <chrono>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "common/system/mutex.h"
#include "tests/support/fake_clock.h"
#include "tests/unit/server/worker/service/worker_fixture.h"

namespace millrace {
namespace {

using test::Fixture;
using test::NextFragment;

/// Rows that take 15 ms of a clock that the test moves. A thread that begins a slice waits until
/// `together` threads are at one, or the gate is opened.
class Rows {
 public:
  explicit Rows(Fixture& fixture) : worker_(fixture.worker), clock_(*fixture.clock) {
    fixture.provider->plan->on_slice = [this](std::size_t first, std::size_t rows) {
      return Build(first, rows);
    };
  }

  /// No thread is at a slice any more.
  ~Rows() {
    OpenGate();
    worker_->Stop();
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  void WaitFor(std::size_t threads) {
    MutexLock lock(mutex_);
    together_ = threads;
  }
  void OpenGate() {
    MutexLock lock(mutex_);
    together_ = 0;
    changed_.NotifyAll();
  }
  /// Waits until so many threads are at slices.
  void WaitUntilAtSlices(std::size_t threads) {
    MutexLock lock(mutex_);
    while (at_.size() < threads) changed_.Wait(mutex_);
  }
  std::size_t threads() {
    MutexLock lock(mutex_);
    return seen_.size();
  }
  void Fail(std::set<std::size_t> rows) {
    MutexLock lock(mutex_);
    failing_ = std::move(rows);
  }

 private:
  bool Build(std::size_t first, std::size_t rows) {
    clock_.Advance(std::chrono::milliseconds(15) * static_cast<int>(rows));
    MutexLock lock(mutex_);
    const auto self = std::this_thread::get_id();
    seen_.insert(self);
    at_.insert(self);
    changed_.NotifyAll();
    // The first row says how long rows take. Nobody helps before.
    if (first == 0) {
      at_.erase(self);
    } else {
      // This thread has told all others above.
      most_ = std::max(most_, at_.size());
      while (together_ > 0 && most_ < together_) changed_.Wait(mutex_);
      at_.erase(self);
    }
    for (std::size_t row = first; row < first + rows; ++row) {
      if (failing_.contains(row)) return false;
    }
    return true;
  }

  const std::shared_ptr<WorkerService> worker_;
  FakeClock& clock_;
  Mutex mutex_;
  CondVar changed_;
  std::size_t together_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::size_t most_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::set<std::thread::id> at_ MILLRACE_GUARDED_BY(mutex_);
  std::set<std::thread::id> seen_ MILLRACE_GUARDED_BY(mutex_);
  std::set<std::size_t> failing_ MILLRACE_GUARDED_BY(mutex_);
};

TEST_CASE("threads without a batch help with one that another thread began", "[worker][slices]") {
  Fixture f(false, 0, false, 4);
  Rows rows(f);
  rows.WaitFor(4);
  f.Serve();
  auto [consumer, stream] = f.Consume();
  stream->Write(test::Wants(f.fingerprint, 1));
  const auto fragment = NextFragment(*consumer);
  REQUIRE(fragment);
  CHECK(fragment->message.batches_sent() == 1);
  CHECK(rows.threads() == 4);
  stream->Write(test::Wants(f.fingerprint, 40));
  for (int i = 0; i < 39; ++i) REQUIRE(NextFragment(*consumer));
}

TEST_CASE("a batch of which slices fail is refused with the error of the lowest row",
          "[worker][slices]") {
  Fixture f(false, 0, false, 4);
  Rows rows(f);
  rows.Fail({3, 6, 9});
  f.Serve();
  auto [consumer, stream] = f.Consume();
  stream->Write(test::Wants(f.fingerprint, 1));
  const auto fragment = NextFragment(*consumer);
  REQUIRE(fragment);
  REQUIRE(fragment->message.has_refused());
  CHECK_THAT(fragment->message.refused().message(), Catch::Contains("row 3 failed"));
  CHECK_THAT(fragment->message.refused().message(), Catch::Contains("batch at"));
}

TEST_CASE("a worker may lose plan and consumer while threads build slices", "[worker][slices]") {
  Fixture f(false, 0, false, 4);
  Rows rows(f);
  rows.WaitFor(100);  // never
  f.Serve();
  auto [consumer, stream] = f.Consume();
  stream->Write(test::Wants(f.fingerprint, 1));
  rows.WaitUntilAtSlices(4);
  SECTION("the consumer goes, and the plan is dropped and wanted again") {
    stream->Close(OkStatus());
    consumer->WaitClosed();
    // Reports come at times of a clock that nobody else moves while the threads stand still.
    const std::jthread ticks([&f](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        f.clock->Advance(std::chrono::milliseconds(100));
        f.worker->Tick();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    f.Say({});
    f.Serve();
  }
  SECTION("the consumer goes") { stream->Close(OkStatus()); }
  SECTION("the consumer withdraws the step") {
    v1::WantList none = test::Wants(f.fingerprint, 1);
    none.clear_runs();
    stream->Write(none);
  }
  SECTION("the data are damaged") {
    f.provider->damaged = true;
    f.clock->Advance(std::chrono::seconds(2));
    f.worker->Tick();
  }
  rows.OpenGate();
  if (f.provider->damaged) return;
  auto [other, again] = f.Consume();
  v1::WantList wants = test::Wants(f.fingerprint, 1);
  wants.mutable_runs(0)->set_position(500);
  wants.mutable_runs(0)->set_first_example(500);
  again->Write(wants);
  REQUIRE(NextFragment(*other));
}

TEST_CASE("a worker that stops does not build the slices that are left", "[worker][slices]") {
  Fixture f(false, 0, false, 4);
  Rows rows(f);
  rows.WaitFor(100);
  f.Serve();
  auto [consumer, stream] = f.Consume();
  stream->Write(test::Wants(f.fingerprint, 3));
  rows.WaitUntilAtSlices(4);
  std::thread stop([&] { f.worker->Stop(); });
  rows.OpenGate();
  stop.join();
}

}  // namespace
}  // namespace millrace
