// A pause that ends early on a request to stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace millrace {

/// Waits for `time`, or until `stop` is requested.
inline void WaitUnlessStopped(const std::stop_token& stop, std::chrono::duration<double> time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace millrace
