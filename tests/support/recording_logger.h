// A log that tests can ask.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/log.h"
#include "common/system/mutex.h"

namespace millrace::test {

/// Remembers the events of a log, and calls the test for each.
class RecordingLogger final : public Logger {
 public:
  void Log(LogLevel, std::string_view event, std::initializer_list<LogField> fields) override {
    std::string line(event);
    for (const LogField& field : fields) {
      line += " " + std::string(field.key) + "=" + field.value;
    }
    MutexLock lock(mutex_);
    lines_.push_back(line);
    changed_.NotifyAll();
  }

  bool Has(const std::string& text) {
    MutexLock lock(mutex_);
    return Find(text);
  }

  void WaitFor(const std::string& text) {
    MutexLock lock(mutex_);
    while (!Find(text)) changed_.Wait(mutex_);
  }

 private:
  bool Find(const std::string& text) MILLRACE_REQUIRES(mutex_) {
    return std::any_of(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> lines_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::test
