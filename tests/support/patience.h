// How long tests wait. A test that hangs is ended by tests/support/main.cc, so no wait needs a limit
// of its own.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace millrace::test {

/// For functions that want a limit: longer than any test may take.
inline constexpr std::chrono::hours kPatience{1};

/// Waits until the condition is true. False after kPatience.
inline bool WaitFor(const std::function<bool()>& condition) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace millrace::test
