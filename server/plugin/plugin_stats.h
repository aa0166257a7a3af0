// The work and the memory of the processes of plugins.
//
// Thread-compatible value types.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/base/time.h"

namespace millrace {

/// A place for a process. Counts are of all processes that the place has had.
struct PluginProcessStats {
  pid_t process = 0;               // 0: not started yet, or just ended
  std::uint64_t restarts = 0;      // starts after the first
  std::uint64_t memory_bytes = 0;  // as the plugin's `memory` limits it
  double busy_seconds = 0;         // in requests, the present one included
  std::uint64_t examples = 0;
  std::uint64_t dropped = 0;
  std::uint64_t failed = 0;  // tries that failed
  bool is_starting = false;  // a request waits for the process to start
};

/// The pool of one object.
struct PluginPoolStats {
  std::uint64_t number = 0;                   // of the pool, in its registry
  bool processes_given = true;                // PluginConfig::processes_given
  std::string object;                         // "asr_data:Corpus"
  std::vector<PluginProcessStats> processes;  // always in the same order
  /// The memory of all processes together, with the fork server. Memory that they share counts
  /// once; files do not count.
  std::uint64_t memory_bytes = 0;
};

/// A process has answered a request to build examples, or ended. Called by the thread that asked,
/// before it goes on.
using OnPluginRequest = std::function<void(std::string_view object, Time begin, Time end)>;

}  // namespace millrace
