// Where the records of keys are in segments: a table of 16 bytes per slot, a third or less of them
// empty on average.
//
// A slot has half of the key. Another key with the same half takes its slot; readers of a record
// compare the whole key. Entries of segments that are gone stay until the table is full, because
// finding them would cost a pass over the table for each segment.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/ids.h"

namespace millrace {

/// A record in a segment. Place and length are in units of kCacheUnit bytes.
struct RecordPlace {
  std::uint32_t segment = 0;  // 1 to kMaxSegmentNumber
  std::uint32_t place = 0;    // below 2^24
  std::uint32_t length = 0;   // below 2^20
  friend bool operator==(const RecordPlace&, const RecordPlace&) = default;
};
inline constexpr std::uint32_t kMaxSegmentNumber = (std::uint32_t{1} << 20) - 1;

/// Which numbers are segments that may hold records. Numbers beyond its end are such segments.
using LiveSegments = std::vector<bool>;

class DiskIndex {
 public:
  /// `seed` spreads keys over the table, so that nobody can make up keys that all collide.
  explicit DiskIndex(std::uint64_t seed) : seed_(seed) {}

  std::optional<RecordPlace> Find(const Digest128& key) const;

  /// False if the table is full: then nothing changes. Rebuild makes room.
  [[nodiscard]] bool Insert(const Digest128& key, const RecordPlace& place);

  /// Removes the entry of the key, if it is still this one.
  void Erase(const Digest128& key, const RecordPlace& place);

  /// Makes a new table of so many slots with the entries of live segments. REQUIRES: `slots` is 0
  /// or a power of two, and Fits(LiveEntries(live), slots).
  void Rebuild(std::size_t slots, const LiveSegments& live);

  std::size_t slots() const { return slots_.size(); }
  std::size_t LiveEntries(const LiveSegments& live) const;
  /// Whether a table with so many entries has room enough that it is not full again soon.
  static bool Fits(std::size_t entries, std::size_t slots) { return entries <= slots / 4 * 3; }

  static constexpr std::size_t kSlotBytes = 16;
  static constexpr std::size_t kFirstSlots = 16;

 private:
  struct Slot {
    std::uint64_t tag = 0;
    std::uint64_t place = 0;  // 0: empty
  };
  static_assert(sizeof(Slot) == kSlotBytes);

  std::size_t Begin(std::uint64_t tag) const;
  /// The slot of the tag, or the empty one where it belongs. REQUIRES: slots_ is not empty.
  std::size_t Probe(std::uint64_t tag) const;

  std::uint64_t seed_;
  std::vector<Slot> slots_;
  std::size_t used_ = 0;  // slots that are not empty
};

}  // namespace millrace
