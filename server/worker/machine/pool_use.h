// A pool of processes of a plugin, as a worker tunes it.
//
// Thread-compatible value type.
#pragma once

#include <cstdint>
#include <string>

namespace millrace {

struct PoolUse {
  std::uint64_t number = 0;        // of the pool; never used again
  std::string object;              // "asr_data:Corpus"
  int places = 1;                  // most processes
  bool processes_given = true;     // the user has set the number: it is not tuned
  int running = 0;                 // processes
  int starting = 0;                // processes for which a request waits
  double busy_seconds = 0;         // of all processes in requests, since the pool began
  std::uint64_t memory_bytes = 0;  // of all processes together
};

}  // namespace millrace
