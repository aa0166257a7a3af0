// Runs the tests of a program, and aborts one that hangs. Catch2 then names its last assertion.
//
// A test may take ten minutes by a clock that slows down while this process and those that it
// started wait for a CPU: if they get a third of the CPU time that they could use, a minute of the
// clock takes three. tests/support/patience.py does the same for tests in Python.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace millrace::test {
namespace {

constexpr double kWholeTestSeconds = 600;

struct Times {
  double ran = 0;     // seconds on a CPU
  double waited = 0;  // seconds of waiting for one
};

/// The times of each thread of this process and of those that it started. Empty if the kernel does
/// not tell.
std::map<std::string, Times> ThreadTimes() {
  std::map<std::string, Times> found;
  std::vector<std::string> processes{std::to_string(getpid())};
  while (!processes.empty()) {
    const std::string tasks = "/proc/" + processes.back() + "/task";
    processes.pop_back();
    std::error_code ended;
    for (std::filesystem::directory_iterator at(tasks, ended), end; !ended && at != end;
         at.increment(ended)) {
      std::ifstream schedstat(at->path() / "schedstat");
      double ran = 0;
      double waited = 0;
      if (schedstat >> ran >> waited) {
        found[at->path().filename()] = {ran / 1e9, waited / 1e9};
      }
      std::ifstream children(at->path() / "children");
      for (std::string child; children >> child;) processes.push_back(child);
    }
  }
  return found;
}

/// How much of `passed` seconds counts, when threads had these times before and after.
double Counted(double passed, const std::map<std::string, Times>& before,
               const std::map<std::string, Times>& after) {
  Times sum;
  for (const auto& [thread, times] : after) {
    const auto known = before.find(thread);
    const Times then = known == before.end() ? Times{} : known->second;
    sum.ran += std::max(0.0, times.ran - then.ran);
    sum.waited += std::max(0.0, times.waited - then.waited);
  }
  if (sum.waited <= 0) return passed;
  const double busy = std::min(passed, sum.ran + sum.waited);
  return passed - busy * sum.waited / (sum.ran + sum.waited);
}

void Watch(const std::stop_token& done) {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  std::condition_variable_any never;
  double counted = 0;
  auto before = ThreadTimes();
  for (auto at = Clock::now(); counted < kWholeTestSeconds;) {
    std::unique_lock lock(mutex);
    never.wait_for(lock, done, std::chrono::seconds(1), [] { return false; });
    if (done.stop_requested()) return;
    const auto now = Clock::now();
    auto after = ThreadTimes();
    counted += Counted(std::chrono::duration<double>(now - at).count(), before, after);
    before = std::move(after);
    at = now;
  }
  std::fprintf(stderr, "the test hangs: it is not done after %.0f s\n", counted);
  kill(getpid(), SIGABRT);
}

/// Programs that a test starts say which test it was (leftovers.py).
class NameForPrograms final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    const std::string name = std::string(program_invocation_short_name) + ": " + test.name;
    setenv("MILLRACE_TEST", name.c_str(), 1);
  }
};
CATCH_REGISTER_LISTENER(NameForPrograms)

class HangWatcher final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo&) override { watch_ = std::jthread(Watch); }
  void testCaseEnded(const Catch::TestCaseStats&) override { watch_ = {}; }

 private:
  std::jthread watch_;
};
CATCH_REGISTER_LISTENER(HangWatcher)

}  // namespace
}  // namespace millrace::test
