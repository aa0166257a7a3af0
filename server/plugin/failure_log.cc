#include "server/plugin/failure_log.h"

#include <utility>

#include <fmt/format.h>

namespace millrace {

void FailureLog::Add(std::optional<std::uint64_t> example, const PluginFailure& failure) {
  std::int64_t count = 0;
  {
    MutexLock lock(mutex_);
    ++count_;
    const Time now = clock_->Now();
    if (last_ && now - *last_ < kEach) return;
    last_ = now;
    count = std::exchange(count_, 0);
  }
  const std::string cause = FailureLine(failure);
  logger_->Warning("a try of a plugin has failed",
                   {{"plugin", object_},
                    {"example", example ? fmt::format("{}", *example) : "not known"},
                    {"cause", cause.substr(0, cause.find('\n'))},
                    {"failed_tries", count}});
}

}  // namespace millrace
