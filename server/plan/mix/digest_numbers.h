// Numbers for digests, in the order in which they are added.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"

namespace millrace {

/// An open hash table: 16 bytes for a digest and 8 to 16 for its place, and one probe of memory for
/// most look-ups. Digests are spread evenly, so they are their own hashes.
class DigestNumbers {
 public:
  struct Added {
    std::uint32_t number = 0;
    bool is_new = false;
  };
  /// The number of a digest; a new digest gets the next number. REQUIRES: size() < 2^32 - 1.
  Added Add(const Digest128& digest) {
    if (2 * (digests_.size() + 1) > slots_.size()) Grow();
    std::uint32_t& slot = Slot(digest);
    const bool is_new = slot == 0;
    if (is_new) {
      digests_.push_back(digest);
      slot = static_cast<std::uint32_t>(digests_.size());
    }
    return {slot - 1, is_new};
  }
  std::size_t size() const { return digests_.size(); }

 private:
  static constexpr std::size_t kLeastSlots = 64;

  std::uint32_t& Slot(const Digest128& digest) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = digest.low & mask;
    while (slots_[at] != 0 && digests_[slots_[at] - 1] != digest) at = (at + 1) & mask;
    return slots_[at];
  }
  void Grow() {
    slots_.assign(slots_.empty() ? kLeastSlots : 2 * slots_.size(), 0);
    for (std::size_t i = 0; i < digests_.size(); ++i) {
      Slot(digests_[i]) = static_cast<std::uint32_t>(i + 1);
    }
  }

  std::vector<Digest128> digests_;    // by number
  std::vector<std::uint32_t> slots_;  // a number plus 1, or 0; a power of two of them
};

}  // namespace millrace
