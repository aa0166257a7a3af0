#include "client/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/core.h>

#include "common/system/mutex.h"

namespace millrace::cli {
namespace {

using ProgressClock = std::chrono::steady_clock;

std::string Amount(double amount, const std::string& unit) {
  if (unit == "bytes") return fmt::format("{:.1f} MB", amount / 1e6);
  return fmt::format("{:.0f} {}", amount, unit);
}

}  // namespace

struct Progress::State {
  const std::string what;
  const std::string unit;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const ProgressClock::time_point began = ProgressClock::now();

  Mutex mutex;
  std::uint64_t done MILLRACE_GUARDED_BY(mutex) = 0;
  std::uint64_t total MILLRACE_GUARDED_BY(mutex) = 0;
  std::string note MILLRACE_GUARDED_BY(mutex);
  ProgressClock::time_point shown MILLRACE_GUARDED_BY(mutex) = began;

  State(std::string w, std::string u, std::uint64_t t)
      : what(std::move(w)), unit(std::move(u)), total(t) {}

  void Show(bool last) MILLRACE_REQUIRES(mutex) {
    const auto now = ProgressClock::now();
    const auto period = terminal ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
    if (!last && now - shown < period) return;
    shown = now;
    const double seconds = std::chrono::duration<double>(now - began).count();
    const double amount = static_cast<double>(done);
    std::string line = what + " ";
    if (total > 0) {
      const double share = std::min(amount / static_cast<double>(total), 1.0);
      if (terminal) {
        constexpr int kWidth = 28;
        const int full = static_cast<int>(share * kWidth);
        line += "[" + std::string(static_cast<std::size_t>(full), '#') +
                std::string(static_cast<std::size_t>(kWidth - full), '.') + "] ";
      }
      line += fmt::format("{:3.0f} % ", share * 100);
    }
    line += Amount(amount, unit);
    if (seconds > 0.2) line += fmt::format(", {}/s", Amount(amount / seconds, unit));
    if (!note.empty()) line += ", " + note;
    std::fprintf(stderr, terminal ? "\r\033[K%s%s" : "%s%s", line.c_str(),
                 terminal && !last ? "" : "\n");
    std::fflush(stderr);
  }
};

Progress::Progress(std::string what, std::string unit, std::uint64_t total)
    : state_(std::make_unique<State>(std::move(what), std::move(unit), total)) {}

Progress::~Progress() {
  MutexLock lock(state_->mutex);
  state_->Show(true);
}

void Progress::Add(std::uint64_t amount) {
  MutexLock lock(state_->mutex);
  state_->done += amount;
  state_->Show(false);
}

void Progress::Set(std::uint64_t done) {
  MutexLock lock(state_->mutex);
  state_->done = done;
  state_->Show(false);
}

void Progress::SetTotal(std::uint64_t total) {
  MutexLock lock(state_->mutex);
  state_->total = total;
}

void Progress::Note(std::string text) {
  MutexLock lock(state_->mutex);
  state_->note = std::move(text);
}

}  // namespace millrace::cli
