#include "common/system/repeat_filter.h"

#include <algorithm>
#include <cstddef>

namespace millrace {
namespace {

constexpr std::size_t kMostFields = 12;

template <std::size_t... I>
void LogFirst(Logger& to, LogLevel level, std::string_view event,
              const std::vector<LogField>& fields, std::index_sequence<I...> /*numbers*/) {
  to.Log(level, event, {fields[I]...});
}

/// Logs fields whose number is known at run time only.
template <std::size_t Count = 0>
void LogAll(Logger& to, LogLevel level, std::string_view event,
            const std::vector<LogField>& fields) {
  if constexpr (Count < kMostFields) {
    if (fields.size() > Count) return LogAll<Count + 1>(to, level, event, fields);
  }
  LogFirst(to, level, event, fields, std::make_index_sequence<Count>());
}

}  // namespace

void RepeatFilter::Log(LogLevel level, std::string_view event,
                       std::initializer_list<LogField> fields) {
  Tick();
  if (level < LogLevel::kWarning || fields.size() >= kMostFields) {
    return to_->Log(level, event, fields);
  }
  std::vector<LogField> shown(fields);
  {
    MutexLock lock(mutex_);
    if (!IsNew(level, event, shown)) return;
    for (LogField& field : shown) CutIfTold(field.value);
  }
  LogAll(*to_, level, event, shown);
}

void RepeatFilter::Tick() {
  std::vector<Line> over;
  {
    const Time now = clock_->Now();
    MutexLock lock(mutex_);
    for (auto at = lines_.begin(); at != lines_.end();) {
      const auto line = at++;
      if (line->second.end > now) continue;
      if (line->second.repeated == 0) {
        lines_.erase(line);
        continue;
      }
      over.push_back(line->second);
      line->second.repeated = 0;
      line->second.end = now + kBetween;
    }
  }
  for (const Line& line : over) {
    std::vector<LogField> fields;
    for (const auto& [key, text] : line.texts) fields.emplace_back(key, text);
    fields.emplace_back("repeated", line.repeated);
    LogAll(*to_, line.level, line.event, fields);
  }
}

bool RepeatFilter::IsNew(LogLevel level, std::string_view event,
                         const std::vector<LogField>& fields) {
  std::string key = std::to_string(static_cast<int>(level)) + std::string(event);
  for (const LogField& field : fields) {
    key += '\0' + std::string(field.key) + '\0' + field.value;
  }
  if (const auto known = lines_.find(key); known != lines_.end()) {
    ++known->second.repeated;
    return false;
  }
  if (lines_.size() >= kMostLines) return true;
  Line line{level, std::string(event), {}, clock_->Now() + kBetween};
  for (const LogField& field : fields) {
    line.texts.emplace_back(field.key, field.value.substr(0, field.value.find('\n')));
  }
  lines_.emplace(std::move(key), std::move(line));
  return true;
}

void RepeatFilter::CutIfTold(std::string& text) {
  const std::size_t first = text.find('\n');
  if (first == std::string::npos) return;
  const Time now = clock_->Now();
  while (!told_.empty() && (told_.size() > kMostTexts || told_.front().second <= now)) {
    told_.pop_front();
  }
  std::string rest = text.substr(first);
  const bool known =
      std::any_of(told_.begin(), told_.end(), [&](const auto& told) { return told.first == rest; });
  if (known) {
    text.resize(first);
    text += " (the rest was logged before)";
  } else {
    told_.emplace_back(std::move(rest), now + kToldFor);
  }
}

}  // namespace millrace
