// A logger whose level can be changed while it is used.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "common/base/log.h"

namespace millrace {

/// Passes on the events of its level and above.
class LevelFilter final : public Logger {
 public:
  LevelFilter(std::shared_ptr<Logger> to, LogLevel level) : to_(std::move(to)), level_(level) {}

  void SetLevel(LogLevel level) { level_ = level; }
  void Log(LogLevel level, std::string_view event,
           std::initializer_list<LogField> fields) override {
    if (level >= level_.load()) to_->Log(level, event, fields);
  }

 private:
  const std::shared_ptr<Logger> to_;
  std::atomic<LogLevel> level_;
};

}  // namespace millrace
