// The order of an epoch: a bijection of [0, n), chosen by a key. Both directions have random access
// in constant time, with constant memory: 200 bytes for any n.
//
// Construction. For n <= 64: the shuffle of Fisher and Yates ("Statistical Tables", 1938;
// Durstenfeld 1964), from a stream of numbers that depends on the key, so that small orders are
// exactly uniform. It runs when the order is made. For larger n: a generalised Feistel network
// over Z_a x Z_b with a = ceil(sqrt(n)) and b = ceil(n / a), whose rounds are modular additions (J.
// Black, P. Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002). The network covers a *
// b values, fewer than a more than n. A result that is not below n goes through the network again
// (cycle walking), which takes 1 + 1 / sqrt(n) passes on average.
// docs/internals/decisions/permutation.md has the alternatives, the tests and the measured cost.
//
// The results are part of `semantics: 1`: cursors and batches of old epochs depend on them, so they
// may not change. This is not a cipher: it hides nothing.
//
// Immutable; thread-safe; cheap to make (a tenth of a microsecond; a short order up to a third) and
// to copy.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace millrace {

class Permutation {
 public:
  static constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 62;

  /// The order of epoch `epoch` for `n` items. REQUIRES: n <= kMaxSize.
  Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t n);

  std::uint64_t size() const { return n_; }

  /// The value at a place of the order. REQUIRES: place < size().
  std::uint64_t operator()(std::uint64_t place) const;

  /// The place of `value`: Inverse((*this)(x)) == x. REQUIRES: value < size().
  std::uint64_t Inverse(std::uint64_t value) const;

 private:
  static constexpr std::uint64_t kMaxShuffled = 64;
  static constexpr std::size_t kMaxRounds = 10;

  /// Word i of the stream of numbers whose key is (seed, epoch, n).
  std::uint64_t Word(std::uint64_t i) const;
  /// One pass of the network over [0, a * b), and its inverse.
  std::uint64_t Forward(std::uint64_t x) const;
  std::uint64_t Backward(std::uint64_t x) const;

  std::uint64_t n_;
  std::uint64_t key_high_;
  std::uint64_t key_low_;
  std::uint64_t a_ = 0;
  std::uint64_t b_ = 0;
  std::uint64_t reciprocal_ = 0;  // floor((2^64 - 1) / b)
  std::size_t rounds_ = 0;        // always even
  std::array<std::uint64_t, kMaxRounds> keys_{};
  std::array<std::uint8_t, kMaxShuffled> shuffled_{};  // the whole order, for n <= kMaxShuffled
};

}  // namespace millrace
