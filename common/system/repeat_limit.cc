#include "common/system/repeat_limit.h"

#include <utility>

#include <fmt/core.h>

namespace millrace {

void RepeatLimit::Log(LogLevel level, std::string_view event,
                      std::initializer_list<LogField> fields) {
  std::string key = fmt::format("{} {}", static_cast<int>(level), event);
  for (const LogField& field : fields) key += fmt::format("\n{}={}", field.key, field.value);
  std::uint64_t since = 0;
  {
    MutexLock lock(mutex_);
    const Time now = clock_->Now();
    const auto found = said_.find(key);
    if (found == said_.end()) {
      Forget(now);
      said_[std::move(key)].at = now;
    } else if (now - found->second.at < kApart) {
      ++found->second.since;
      return;
    } else {
      since = std::exchange(found->second.since, 0);
      found->second.at = now;
    }
  }
  if (since == 0) {
    to_->Log(level, event, fields);
  } else {
    to_->Log(level, fmt::format("{}, {} times since the last such line", event, since + 1), fields);
  }
}

void RepeatLimit::Forget(Time now) {
  std::erase_if(said_, [now](const auto& said) { return now - said.second.at >= 2 * kApart; });
}

}  // namespace millrace
