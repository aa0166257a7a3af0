// The known places of records between the offsets that an index keeps.
//
// An index keeps the offset of every 16th record; a record between two of them is reached by steps
// from header to header, each of which waits for memory. Shuffling in blocks reaches the same
// groups of 16 again and again, so steps that were taken once are remembered, in a table of fixed
// size. Later entries replace earlier ones.
//
// Thread-safe, without locks: each entry has a version, which is odd while it is written (a
// seqlock; Boehm, "Can seqlocks get along with programming language memory models?", 2012). A
// reader that meets a change, and a writer that meets another one, give up.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

class WalkedGroups {
 public:
  /// Records of a group, of which the first one's offset is known anyway.
  static constexpr std::uint32_t kRecords = 16;

  /// Steps from the first record of a group.
  struct Steps {
    std::uint32_t count = 0;
    std::uint32_t bytes = 0;  // from start to end
  };

  /// `entries`: a power of two. An entry takes 80 bytes.
  explicit WalkedGroups(std::size_t entries = std::size_t{1} << 15)
      : entries_(entries), mask_(entries - 1) {}

  /// The known steps that lead farthest, but no more than `most`. REQUIRES: most < kRecords.
  Steps Find(std::uint64_t group, std::uint32_t most) const {
    const Entry& entry = entries_[group & mask_];
    const std::uint32_t version = entry.version.load(std::memory_order_acquire);
    if (version % 2 != 0 || entry.group.load(std::memory_order_acquire) != group) return {};
    const std::uint32_t known = entry.count.load(std::memory_order_acquire);
    const std::uint32_t count = known < most ? known : most;
    if (count == 0) return {};
    const std::uint32_t bytes = entry.ends[count - 1].load(std::memory_order_acquire);
    if (entry.version.load(std::memory_order_relaxed) != version) return {};
    return {count, bytes};
  }

  /// Remembers steps that follow on the first `known` ones: `ends[i]` is where step known + i + 1
  /// leads, counted from the first record of the group. REQUIRES: no more than kRecords - 1 steps
  /// in all.
  void Add(std::uint64_t group, std::uint32_t known, std::span<const std::uint32_t> ends);

 private:
  struct Entry {
    std::atomic<std::uint32_t> version = 0;
    std::atomic<std::uint32_t> count = 0;  // of known steps
    std::atomic<std::uint64_t> group = 0;
    std::array<std::atomic<std::uint32_t>, kRecords - 1> ends{};
  };

  std::vector<Entry> entries_;
  const std::uint64_t mask_;
};

}  // namespace millrace
