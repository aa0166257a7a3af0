#include "tests/sim/fleet/fleet_nodes.h"

#include <algorithm>
#include <chrono>

namespace millrace::sim {

void DecisionLog::Log(LogLevel /*level*/, std::string_view event,
                      std::initializer_list<LogField> fields) {
  if (event != "tuning") return;
  const std::string& line = lines_.emplace_back(fields.begin()->value);
  if (line.ends_with("; being tried") || line.ends_with(": undone")) ++changes_;
}

Time SerialLink::Pass(Time from, std::uint64_t bytes) {
  const std::chrono::duration<double> takes(static_cast<double>(bytes) / bytes_per_second_);
  free_ = std::max(free_, from) + std::chrono::duration_cast<Duration>(takes);
  return free_;
}

}  // namespace millrace::sim
