#include "server/plugin/failure_log.h"

#include <fmt/format.h>

namespace millrace {

void FailureLog::Add(std::optional<std::uint64_t> example, const PluginFailure& failure) {
  const std::optional<std::uint64_t> unsaid = limit_.MayLog(clock_->Now());
  if (!unsaid) return;
  const std::string cause = FailureLine(failure);
  logger_->Warning("a try of a plugin has failed",
                   {{"plugin", object_},
                    {"example", example ? fmt::format("{}", *example) : "not known"},
                    {"cause", cause.substr(0, cause.find('\n'))},
                    {"failed_tries", *unsaid + 1}});
}

}  // namespace millrace
