// Random numbers of the generators: splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", 2014), keyed, with integer distributions only. The distributions of the
// standard library differ from one library to another, but a dataset's bytes must not.
#pragma once

#include <cstdint>

namespace millrace::generator {

/// The finalizer of splitmix64: a bijection of 64-bit words in which every input bit affects every
/// output bit.
constexpr std::uint64_t Mix(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
  return word ^ (word >> 31);
}

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;

constexpr std::uint64_t Mix(std::uint64_t a, std::uint64_t b) { return Mix(Mix(a + kGolden) ^ b); }

/// Copyable; not thread-safe.
class Random {
 public:
  explicit Random(std::uint64_t key) : state_(key) {}

  std::uint64_t Next() { return Mix(state_ += kGolden); }

  /// A number in [0, n), with a bias below n / 2^32. 0 for n = 0.
  std::uint32_t Below(std::uint32_t n) {
    return static_cast<std::uint32_t>(((Next() >> 32) * n) >> 32);
  }

  /// True once in n times on average.
  bool OneIn(std::uint32_t n) { return Below(n) == 0; }

  /// A number in [0, n), low numbers more often: the product of two uniform numbers.
  std::uint32_t LowBelow(std::uint32_t n) {
    return static_cast<std::uint32_t>((std::uint64_t{Below(n)} * Below(n)) / (n == 0 ? 1 : n));
  }

  /// A number from `base` to `cap`, with a tail: each octave above `base` is reached with a
  /// probability of `out_of_256` / 256 of the octave below it.
  std::uint32_t HeavyTail(std::uint32_t base, std::uint32_t out_of_256, std::uint32_t cap) {
    std::uint64_t octave = base;
    while (octave < cap && Below(256) < out_of_256) octave *= 2;
    const std::uint64_t value = octave + Below(static_cast<std::uint32_t>(octave));
    return value < cap ? static_cast<std::uint32_t>(value) : cap;
  }

 private:
  std::uint64_t state_;
};

}  // namespace millrace::generator
