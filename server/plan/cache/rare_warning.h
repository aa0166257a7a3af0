// Warnings about something that may go wrong at every call, but is worth a line only now and then.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/system/clock.h"

namespace millrace {

class RareWarning {
 public:
  static constexpr Duration kBetween = std::chrono::minutes(10);

  RareWarning(std::shared_ptr<const Clock> clock, std::shared_ptr<Logger> logger)
      : clock_(std::move(clock)), logger_(std::move(logger)) {}

  /// Logs, unless less than kBetween has passed since the last line. Then it only counts; the next
  /// line has the number.
  void Warn(std::string_view event, const Status& status) {
    const Duration::rep now = clock_->Now().since_boot.count();
    Duration::rep next = next_;
    if (now < next || !next_.compare_exchange_strong(next, now + kBetween.count())) {
      ++silent_;
      return;
    }
    logger_->Warning(event, {{"reason", status}, {"not_logged", silent_.exchange(0)}});
  }

 private:
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<Logger> logger_;
  std::atomic<Duration::rep> next_{0};
  std::atomic<std::uint64_t> silent_{0};
};

}  // namespace millrace
