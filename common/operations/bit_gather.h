// Loops that fetch single bits from given places, and choose values by them. Arrays do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

/// out[i] = low[i] if the byte which[i] is 0, or high[i] if it is 255.
using SelectLoop = void (*)(const std::uint8_t* which, const std::byte* low, const std::byte* high,
                            std::byte* out, std::size_t count);
SelectLoop SelectLoopOf(std::size_t value_bytes);

/// Fetches bits as bytes. Place 8 b + s of the map is bit s of byte b, s = 0 being the least
/// significant. If the map repeats itself after a few bytes, tables give all bits of a byte at
/// once.
class BitGather {
 public:
  /// A set bit becomes the byte `one`, another becomes 0. Select takes at most `lanes` values at
  /// once.
  BitGather(std::vector<std::uint32_t> map, std::uint8_t one, std::size_t lanes = MostLanes());

  /// How many values of four bytes this processor chooses at once: 4, 8 or 16; 0: it cannot.
  static std::size_t MostLanes();

  /// Writes out[i] for places begin to begin + count - 1 of the map. If there are tables, begin is
  /// a multiple of group().
  void Run(const std::uint8_t* in, std::size_t begin, std::size_t count, std::uint8_t* out) const;

  /// Values of four bytes that are chosen by bits.
  struct Choice {
    const std::byte* low;   // for each place, from `begin` on
    const std::byte* high;  // likewise
    bool low_is_zero;       // all bytes of `low` are 0
    /// Writes past the caches. REQUIRES: as for StreamCopy (stream.h).
    bool stream;
  };

  /// Run and SelectLoop in one pass, for as many whole groups of the places as possible; returns
  /// their number. REQUIRES: begin is a multiple of group(), if there are tables.
  std::size_t Select(const std::uint8_t* in, std::size_t begin, std::size_t count,
                     const Choice& choice, std::byte* out) const;

  /// Places that the tables give together; 0: there are no tables.
  std::size_t group() const { return group_; }

 private:
  bool FindGroup(std::size_t group);

  std::vector<std::uint32_t> map_;
  std::uint8_t one_;
  std::size_t lanes_;
  std::size_t group_ = 0;
  std::vector<std::uint32_t> bases_;   // the first byte of each group
  std::vector<std::int32_t> offsets_;  // the bytes that a group reads, counted from its base
  std::vector<std::uint64_t> tables_;  // for each offset and value of the byte: a group's bytes
  std::vector<std::uint64_t> bits_;    // likewise: a group's bits, the first one lowest
};

}  // namespace millrace
