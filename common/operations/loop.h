// A loop on the host: runs the steps of a plan (loop_plan.h). Values are fetched block by block,
// and the passes are applied to a block while it is in the nearest cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/operations/bit_gather.h"
#include "common/operations/convert_kernels.h"
#include "common/operations/gather_kernels.h"
#include "common/operations/loop_plan.h"

namespace millrace {

/// Immutable; thread-safe.
class Loop {
 public:
  explicit Loop(const LoopPlan& plan);

  /// Reads `units` units of the input, and writes as many of the output. Both begin at multiples of
  /// 8 bytes and do not overlap. `read_soon`: the output will be read soon, so it should stay in
  /// the caches, even if it is large.
  void Run(const std::byte* in, std::uint64_t units, std::byte* out, bool read_soon) const;

 private:
  /// One pass over the values of a block.
  struct Pass {
    ConvertLoop convert = nullptr;  // or otherwise scale
    ScaleLoop scale = nullptr;
    std::size_t in_bytes = 0;  // of a value
    std::size_t out_bytes = 0;
    std::vector<std::byte> scales;  // for each value of a tile
    std::vector<std::byte> offsets;
  };
  /// Values of the map that are neighbours in the input too.
  struct Neighbours {
    std::uint32_t out;
    std::uint32_t in;
    std::uint32_t count;
  };
  struct Block {
    const std::byte* in;  // the block's first unit
    std::size_t first;    // the block's first value in the tile
    std::size_t count;
    std::byte* out;
    bool whole;   // the tile has all its units
    bool stream;  // past the caches
  };

  void AddPass(const LoopPass& pass);
  void AddMap(const LoopPlan& plan);
  void AddSelection();
  void RunBlock(const Block& block) const;
  void RunSelect(const Block& block) const;
  /// Writes the fetched values to `to`, or returns their place if they are already in order.
  const std::byte* Fetch(const Block& block, std::byte* to) const;
  void RunPasses(const std::byte* in, std::size_t first, std::size_t count, std::byte* out) const;

  std::size_t in_unit_bytes_ = 0;
  std::size_t value_bytes_ = 0;  // as fetched
  std::size_t out_value_bytes_ = 0;
  std::uint64_t out_values_ = 0;  // of a unit
  // A tile is the values of several units, or of one. Maps and scales hold for a tile.
  std::uint64_t tile_units_ = 1;
  std::uint64_t block_values_ = 0;  // of a large unit, whose tile has several blocks

  std::vector<std::uint32_t> map_;
  GatherLoop gather_ = nullptr;
  GatherLoop stream_gather_ = nullptr;  // if nothing follows: the same, past the caches
  std::optional<ByteShuffle> shuffle_;  // of whole tiles, beside gather_
  std::vector<Neighbours> neighbours_;  // if there are few, instead of the map
  std::optional<BitGather> bits_;
  std::vector<Pass> passes_;
  // If bits are fetched, passes only choose between two values.
  SelectLoop select_ = nullptr;
  std::vector<std::byte> low_;
  std::vector<std::byte> high_;
  bool low_is_zero_ = false;
};

}  // namespace millrace
