// A loop over independent pieces of work that runs on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace millrace {

/// Calls body(0), …, body(count - 1), each once, on `threads` threads, and returns when all are
/// done. With 0 threads it uses one for each CPU that the process may use. `body` is called from
/// several threads at once and must not throw.
template <class Body>
void ParallelFor(unsigned threads, std::size_t count, const Body& body) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::jthread> helpers;
  const std::size_t wanted = std::min<std::size_t>(threads, count);
  for (std::size_t t = 1; t < wanted; ++t) helpers.emplace_back(work);
  work();
}

}  // namespace millrace
