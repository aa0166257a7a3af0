// Asks a dispatcher for its status again and again, over gRPC, on a thread of its own.
#pragma once

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"

namespace millrace::bench {

class StatusPoller {
 public:
  struct Polls {
    Status failure;              // the first one
    std::vector<float> seconds;  // from when each was due until it was there
    std::size_t bytes = 0;       // of the last status
  };

  StatusPoller(std::string address, double polls_per_second);
  /// Ends polling.
  Polls Stop();

 private:
  void Run(const std::stop_token& stop);

  const std::string address_;
  const double polls_per_second_;
  Polls polls_;  // of the thread, until it has ended
  std::jthread thread_;
};

}  // namespace millrace::bench
