// Logs failed tries of a plugin. Otherwise an example that is built at the next try would leave no
// trace.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/system/clock.h"
#include "common/system/log_limit.h"
#include "server/plugin/reply/plugin_failure.h"

namespace millrace {

class FailureLog {
 public:
  /// `object`: "asr_data:Corpus".
  FailureLog(std::shared_ptr<Logger> logger, std::shared_ptr<const Clock> clock, std::string object)
      : logger_(std::move(logger)), clock_(std::move(clock)), object_(std::move(object)) {}

  /// Logs a line, or counts for the next one (LogLimit). `example`: whose fault it is, if that is
  /// known.
  void Add(std::optional<std::uint64_t> example, const PluginFailure& failure);

 private:
  const std::shared_ptr<Logger> logger_;
  const std::shared_ptr<const Clock> clock_;
  const std::string object_;
  LogLimit limit_;
};

}  // namespace millrace
