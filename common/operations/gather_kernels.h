// Loops that fetch values from given places. Arrays do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

/// out[i] = in[map[i]] for values of one size.
using GatherLoop = void (*)(const std::byte* in, std::span<const std::uint32_t> map,
                            std::byte* out);
/// REQUIRES: value_bytes is 1, 2, 4 or 8.
GatherLoop GatherLoopOf(std::size_t value_bytes);
/// A loop that writes past the caches; nullptr if there is none for this size. REQUIRES: as for
/// StreamCopy (stream.h).
GatherLoop StreamGatherLoopOf(std::size_t value_bytes);

/// A map whose neighbours come from places near one another, done 16 bytes at a time by the
/// processor's shuffles: for example, channels of an image in another order.
class ByteShuffle {
 public:
  /// Whether this processor has the instructions, and the map is such a one. A map of values of
  /// `value_bytes` bytes reads from `in_bytes` bytes.
  ByteShuffle(std::span<const std::uint32_t> map, std::size_t value_bytes, std::size_t in_bytes);

  bool usable() const { return !groups_.empty(); }

  /// Writes values from `begin` to begin + count - 1 of the map, in whole groups of 16 bytes;
  /// returns their number. REQUIRES: begin is a multiple of 16.
  std::size_t Run(const std::byte* in, std::size_t begin, std::size_t count, std::byte* out) const;

 private:
  /// Sixteen bytes of the output. Each comes from one of two windows of the input; its place in the
  /// other one is 0x80, which gives 0.
  struct Group {
    std::uint32_t first;  // where the windows of 16 bytes begin
    std::uint32_t second;
    std::uint8_t from_first[16];
    std::uint8_t from_second[16];
  };

  bool AddGroup(std::span<const std::uint32_t> places, std::size_t in_bytes);

  std::size_t value_bytes_;
  std::vector<Group> groups_;
};

}  // namespace millrace
