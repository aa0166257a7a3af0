#include "common/operations/bit_gather.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

constexpr std::size_t kMaxGroup = 64;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

template <class T>
void SelectValues(const std::uint8_t* which, const std::byte* low, const std::byte* high,
                  std::byte* out, std::size_t count) {
  const T* const __restrict zero = reinterpret_cast<const T*>(low);
  const T* const __restrict one = reinterpret_cast<const T*>(high);
  T* const __restrict to = reinterpret_cast<T*>(out);
  for (std::size_t i = 0; i < count; ++i) {
    const T mask = static_cast<T>(T{0} - static_cast<T>(which[i] & 1));
    to[i] = static_cast<T>(zero[i] ^ (mask & (zero[i] ^ one[i])));
  }
}

/// Groups of kWords * 8 bytes, as BitGather's tables give them.
template <std::size_t kWords>
void RunTables(const std::uint8_t* in, std::span<const std::uint32_t> bases,
               std::span<const std::int32_t> offsets, const std::uint64_t* tables,
               std::uint8_t* out) {
  for (const std::uint32_t base : bases) {
    std::uint64_t group[kWords] = {};
    const std::uint64_t* table = tables;
    for (const std::int32_t offset : offsets) {
      const std::uint64_t* const words =
          table + kWords * in[static_cast<std::ptrdiff_t>(base) + offset];
      for (std::size_t w = 0; w < kWords; ++w) group[w] |= words[w];
      table += kWords * 256;
    }
    std::memcpy(out, group, sizeof group);
    out += sizeof group;
  }
}

using TablesLoop = decltype(&RunTables<1>);
constexpr TablesLoop kTablesLoops[] = {&RunTables<1>, &RunTables<2>, &RunTables<3>, &RunTables<4>,
                                       &RunTables<5>, &RunTables<6>, &RunTables<7>, &RunTables<8>};

}  // namespace

SelectLoop SelectLoopOf(std::size_t value_bytes) {
  switch (value_bytes) {
    case 1:
      return &SelectValues<std::uint8_t>;
    case 2:
      return &SelectValues<std::uint16_t>;
    case 4:
      return &SelectValues<std::uint32_t>;
    default:
      return &SelectValues<std::uint64_t>;
  }
}

BitGather::BitGather(std::vector<std::uint32_t> map, std::uint8_t one, std::size_t lanes)
    : map_(std::move(map)), one_(one), lanes_(lanes) {
  for (std::size_t group = kWordBytes; group <= kMaxGroup; group += kWordBytes) {
    if (FindGroup(group)) break;
  }
}

bool BitGather::FindGroup(std::size_t group) {
  if (map_.size() % group != 0) return false;
  std::vector<std::uint32_t> bases;
  for (std::size_t first = 0; first < map_.size(); first += group) {
    // Unsigned differences wrap, and wrap back when they are added.
    const std::uint32_t moved = map_[first] - map_[0];
    if (moved % 8 != 0) return false;
    for (std::size_t i = 0; i < group; ++i) {
      if (map_[first + i] - map_[i] != moved) return false;
    }
    bases.push_back(map_[first] / 8);
  }
  const auto origin = static_cast<std::int32_t>(map_[0] / 8);
  std::vector<std::int32_t> offsets;
  for (std::size_t i = 0; i < group; ++i) {
    offsets.push_back(static_cast<std::int32_t>(map_[i] / 8) - origin);
  }
  const std::vector<std::int32_t> offset_of = offsets;
  std::sort(offsets.begin(), offsets.end());
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  if (2 * offsets.size() > group) return false;  // bit by bit is as quick
  std::vector<std::uint8_t> tables(offsets.size() * 256 * group, 0);
  bits_.assign(offsets.size() * 256, 0);
  for (std::size_t i = 0; i < group; ++i) {
    const auto table = static_cast<std::size_t>(
        std::find(offsets.begin(), offsets.end(), offset_of[i]) - offsets.begin());
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint64_t bit = byte >> (map_[i] % 8) & 1;
      tables[(table * 256 + byte) * group + i] = bit != 0 ? one_ : 0;
      bits_[table * 256 + byte] |= bit << i;
    }
  }
  group_ = group;
  bases_ = std::move(bases);
  offsets_ = std::move(offsets);
  tables_.resize(tables.size() / kWordBytes);
  std::memcpy(tables_.data(), tables.data(), tables.size());
  return true;
}

void BitGather::Run(const std::uint8_t* in, std::size_t begin, std::size_t count,
                    std::uint8_t* out) const {
  std::size_t done = 0;
  if (group_ != 0) {
    const std::size_t groups = count / group_;
    kTablesLoops[group_ / kWordBytes - 1](in, std::span(bases_).subspan(begin / group_, groups),
                                          offsets_, tables_.data(), out);
    done = groups * group_;
  }
  for (; done < count; ++done) {
    const std::uint32_t place = map_[begin + done];
    out[done] = static_cast<std::uint8_t>((in[place / 8] >> (place % 8) & 1) * one_);
  }
}

}  // namespace millrace
