#include "common/operations/loop.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "common/base/ask_for_line.h"
#include "common/operations/stream.h"

namespace millrace {
namespace {

// Blocks of small units have about so many values; a larger unit is a block up to kMaxBlock.
constexpr std::uint64_t kLoopBlock = 1024;
constexpr std::uint64_t kMaxBlock = 4096;
constexpr std::size_t kMaxValueBytes = 8;
// Larger outputs do not stay in the nearest caches, and are written past them.
constexpr std::uint64_t kStreamBytes = std::uint64_t{1} << 20;
constexpr std::size_t kLineBytes = 64;
constexpr std::uint64_t kPrefetchBytes = 8192;
// Neighbours are copied together if they have so many bytes on average.
constexpr std::size_t kNeighbourBytes = 64;

/// Copies a few bytes at a time, as most neighbours are few.
void CopyNear(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes % 16 != 0 || bytes > 256) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t at = 0; at < bytes; at += 16) std::memcpy(to + at, from + at, 16);
}

/// Has bytes brought into the caches that will be read in no regular order.
void Prefetch(const std::byte* from, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += kLineBytes) AskForNearLine(from + at);
}

}  // namespace

Loop::Loop(const LoopPlan& plan) {
  in_unit_bytes_ = plan.source().UnitBytes();
  value_bytes_ = plan.bits() ? 1 : DTypeSize(plan.source().dtype);
  out_value_bytes_ = DTypeSize(plan.output().dtype);
  out_values_ = plan.unit_values();
  // Places of a tile are numbers of 32 bits.
  const std::uint64_t most =
      std::max<std::uint64_t>(1, (std::uint64_t{1} << 31) / (8 * in_unit_bytes_));
  tile_units_ = std::clamp<std::uint64_t>(kLoopBlock / out_values_, 1, most);
  // Whole groups of eight units, so that tables of bits fit into tiles.
  if (tile_units_ > 8) tile_units_ -= tile_units_ % 8;
  if (!plan.map().empty()) AddMap(plan);
  block_values_ = tile_units_ * out_values_;
  if (block_values_ > kMaxBlock) {
    // Blocks begin at groups of bits, and where they can be written past the caches.
    const std::uint64_t group = bits_ && bits_->group() != 0 ? bits_->group() : 1;
    block_values_ = kMaxBlock - kMaxBlock % std::lcm(group, kStreamAlignment);
  }
  for (const LoopPass& pass : plan.Passes()) AddPass(pass);
  if (bits_ && !passes_.empty()) AddSelection();
}

void Loop::AddPass(const LoopPass& pass) {
  Pass added;
  added.in_bytes = DTypeSize(pass.from);
  added.out_bytes = DTypeSize(pass.to);
  if (pass.scaled == nullptr) {
    added.convert = ConvertLoopOf(pass.from, pass.to);
  } else {
    const std::size_t tile = tile_units_ * out_values_;
    added.scale = ScaleLoopOf(pass.to);
    added.scales = RepeatedNumbers(pass.scaled->scale, 1, pass.to, tile);
    added.offsets = RepeatedNumbers(pass.scaled->offset, 0, pass.to, tile);
  }
  passes_.push_back(std::move(added));
}

void Loop::AddMap(const LoopPlan& plan) {
  const auto unit =
      static_cast<std::uint32_t>(plan.bits() ? 8 * in_unit_bytes_ : plan.source().UnitElements());
  map_.reserve(tile_units_ * out_values_);
  for (std::uint32_t u = 0; u < tile_units_; ++u) {
    for (const std::uint32_t place : plan.map()) map_.push_back(u * unit + place);
  }
  if (plan.bits()) {
    bits_.emplace(std::move(map_), plan.converts() ? 255 : 1);
    return;
  }
  for (std::size_t i = 0; i < map_.size(); ++i) {
    if (!neighbours_.empty() && neighbours_.back().in + neighbours_.back().count == map_[i]) {
      ++neighbours_.back().count;
    } else {
      neighbours_.push_back({static_cast<std::uint32_t>(i), map_[i], 1});
    }
  }
  if (map_.size() * value_bytes_ < kNeighbourBytes * neighbours_.size()) {
    neighbours_.clear();
    gather_ = GatherLoopOf(value_bytes_);
    shuffle_.emplace(map_, value_bytes_, tile_units_ * in_unit_bytes_);
    if (!shuffle_->usable()) shuffle_.reset();
    if (!shuffle_ && !plan.converts()) stream_gather_ = StreamGatherLoopOf(value_bytes_);
  }
}

void Loop::AddSelection() {
  const std::size_t tile = tile_units_ * out_values_;
  for (const int bit : {0, 1}) {
    const std::vector<std::byte> fetched(tile, static_cast<std::byte>(bit));
    std::vector<std::byte>& chosen = bit == 0 ? low_ : high_;
    chosen.resize(tile * out_value_bytes_);
    for (std::size_t first = 0; first < tile; first += kMaxBlock) {
      const std::size_t count = std::min<std::size_t>(kMaxBlock, tile - first);
      RunPasses(fetched.data() + first, first, count, chosen.data() + first * out_value_bytes_);
    }
  }
  passes_.clear();
  select_ = SelectLoopOf(out_value_bytes_);
  low_is_zero_ =
      std::all_of(low_.begin(), low_.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

void Loop::Run(const std::byte* in, std::uint64_t units, std::byte* out, bool read_soon) const {
  const std::uint64_t unit_bytes = out_values_ * out_value_bytes_;
  const bool stream = !read_soon && units * unit_bytes >= kStreamBytes &&
                      tile_units_ * unit_bytes % kStreamAlignment == 0 &&
                      reinterpret_cast<std::uintptr_t>(out) % kStreamAlignment == 0;
  const bool jumps = gather_ != nullptr || !neighbours_.empty();
  const std::uint64_t tile_bytes = tile_units_ * in_unit_bytes_;
  for (std::uint64_t unit = 0; unit < units; unit += tile_units_) {
    const bool whole = units - unit >= tile_units_;
    const std::uint64_t values = (whole ? tile_units_ : units - unit) * out_values_;
    if (jumps && tile_bytes <= kPrefetchBytes && units - unit >= 2 * tile_units_) {
      Prefetch(in + (unit + tile_units_) * in_unit_bytes_, tile_bytes);
    }
    for (std::uint64_t first = 0; first < values; first += block_values_) {
      RunBlock({in + unit * in_unit_bytes_, first, std::min(block_values_, values - first),
                out + (unit * out_values_ + first) * out_value_bytes_, whole, stream});
    }
  }
  if (stream) FinishStream();
}

void Loop::RunSelect(const Block& block) const {
  const auto* const in = reinterpret_cast<const std::uint8_t*>(block.in);
  const std::byte* const low = low_.data() + block.first * out_value_bytes_;
  const std::byte* const high = high_.data() + block.first * out_value_bytes_;
  std::size_t done = 0;
  if (out_value_bytes_ == 4) {
    done = bits_->Select(in, block.first, block.count, {low, high, low_is_zero_, block.stream},
                         block.out);
  }
  if (done == block.count) return;
  std::array<std::uint8_t, kMaxBlock> which;
  bits_->Run(in, block.first + done, block.count - done, which.data());
  const std::size_t at = done * out_value_bytes_;
  select_(which.data(), low + at, high + at, block.out + at, block.count - done);
}

void Loop::RunBlock(const Block& block) const {
  alignas(64) std::array<std::byte, kMaxBlock * kMaxValueBytes> fetched;
  alignas(64) std::array<std::byte, kMaxBlock * kMaxValueBytes> made;
  if (select_ != nullptr) return RunSelect(block);
  if (block.stream && stream_gather_ != nullptr) {
    return stream_gather_(block.in, std::span(map_).subspan(block.first, block.count), block.out);
  }
  const std::size_t bytes = block.count * out_value_bytes_;
  std::byte* const to = block.stream ? made.data() : block.out;
  const std::byte* values = to;
  if (passes_.empty()) {
    values = Fetch(block, to);
  } else {
    RunPasses(Fetch(block, fetched.data()), block.first, block.count, to);
  }
  if (block.stream) {
    StreamCopy(block.out, values, bytes);
  } else if (values != block.out) {
    std::memcpy(block.out, values, bytes);
  }
}

const std::byte* Loop::Fetch(const Block& block, std::byte* to) const {
  if (bits_) {
    bits_->Run(reinterpret_cast<const std::uint8_t*>(block.in), block.first, block.count,
               reinterpret_cast<std::uint8_t*>(to));
  } else if (gather_ != nullptr) {
    const bool shuffles = shuffle_ && block.whole;
    const std::size_t done = shuffles ? shuffle_->Run(block.in, block.first, block.count, to) : 0;
    gather_(block.in, std::span(map_).subspan(block.first + done, block.count - done),
            to + done * value_bytes_);
  } else if (!neighbours_.empty()) {
    // The last ones that begin at or before the block's first value.
    auto run = std::upper_bound(neighbours_.begin(), neighbours_.end(), block.first,
                                [](std::size_t at, const Neighbours& n) { return at < n.out; });
    const std::size_t end = block.first + block.count;
    for (--run; run != neighbours_.end() && run->out < end; ++run) {
      const std::size_t begin = std::max<std::size_t>(run->out, block.first);
      const std::size_t count = std::min<std::size_t>(run->out + run->count, end) - begin;
      CopyNear(to + (begin - block.first) * value_bytes_,
               block.in + (run->in + begin - run->out) * value_bytes_, count * value_bytes_);
    }
  } else {
    return block.in + block.first * value_bytes_;
  }
  return to;
}

void Loop::RunPasses(const std::byte* in, std::size_t first, std::size_t count,
                     std::byte* out) const {
  alignas(64) std::array<std::array<std::byte, kMaxBlock * kMaxValueBytes>, 2> between;
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    const Pass& pass = passes_[i];
    std::byte* const to = i + 1 == passes_.size() ? out : between[i % 2].data();
    if (pass.convert != nullptr) {
      pass.convert(in, to, count);
    } else {
      pass.scale(in, to, count, pass.scales.data() + first * pass.out_bytes,
                 pass.offsets.data() + first * pass.out_bytes);
    }
    in = to;
  }
}

}  // namespace millrace
