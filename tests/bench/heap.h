// Counts the memory that a program holds from operator new. heap.cc defines the operators: a
// program that counts needs heap.cc among its sources.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace millrace::bench {

/// Counts the bytes that operator new has returned and that were not deleted, in the sizes to which
/// malloc rounds; also the most since ResetPeak.
class Heap {
 public:
  static std::uint64_t held() { return held_; }
  static std::uint64_t peak() { return peak_; }
  static void ResetPeak() { peak_ = held_.load(); }
  /// Ends the counting, because counting takes time.
  static void Stop() { counts_ = false; }

  static void* Take(std::size_t size) {
    void* const memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) throw std::bad_alloc();
    if (!counts_) return memory;
    const std::uint64_t now = held_ += malloc_usable_size(memory);
    std::uint64_t most = peak_;
    while (most < now && !peak_.compare_exchange_weak(most, now)) {
    }
    return memory;
  }
  static void Give(void* memory) {
    if (counts_ && memory != nullptr) held_ -= malloc_usable_size(memory);
    std::free(memory);
  }

 private:
  static inline std::atomic<bool> counts_{true};
  static inline std::atomic<std::uint64_t> held_{0};
  static inline std::atomic<std::uint64_t> peak_{0};
};

}  // namespace millrace::bench
