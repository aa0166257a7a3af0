#include "server/plugin/reply/reply_table.h"

#include <cstring>

#include <fmt/format.h>

namespace millrace {
namespace {

std::uint64_t Word(std::span<const std::byte> table, std::uint64_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, table.data() + at, sizeof word);
  return word;
}

/// The places of a ragged tensor. `left` counts down the bytes of the heap.
Result<std::vector<RowPlace>> ReadPlaces(const ReplyLayout& layout, std::size_t tensor,
                                         const ReplyTable& read, std::span<const std::byte> table,
                                         std::uint64_t memory_bytes, std::uint64_t& left) {
  const std::uint64_t unit = layout.types[tensor].UnitBytes();
  const std::uint64_t begin = layout.places[tensor] - kReplyHeadBytes;
  std::vector<RowPlace> places(read.outcomes.size());
  for (std::uint64_t row = 0; row < places.size(); ++row) {
    if (read.outcomes[row] != RowOutcome::kDone) continue;
    RowPlace& place = places[row];
    place.offset = Word(table, begin + 16 * row);
    place.extent = Word(table, begin + 16 * row + 8);
    const auto wrong = [&](std::string_view what) {
      return DataLoss(fmt::format(
          "the table of a reply: row {}, tensor {}: {} (place {}, extent {}, memory of {} bytes)",
          row, tensor, what, place.offset, place.extent, memory_bytes));
    };
    if (place.offset % DTypeSize(layout.types[tensor].dtype) != 0) {
      return wrong("the place is not a multiple of the size of a value");
    }
    if (place.offset < layout.heap || place.offset > memory_bytes) {
      return wrong("the place is not in the heap");
    }
    if (place.extent > (memory_bytes - place.offset) / unit) {
      return wrong("the values end behind the memory");
    }
    place.bytes = place.extent * unit;
    // Values that lie over each other could be far more than the memory.
    if (place.bytes > left) return wrong("there are more values than the heap has bytes");
    left -= place.bytes;
  }
  return places;
}

}  // namespace

RowPlace ReplyTable::Place(std::size_t tensor, std::uint64_t row) const {
  if (layout.types[tensor].ragged) return ragged[tensor][row];
  const std::uint64_t unit = layout.types[tensor].UnitBytes();
  return {layout.places[tensor] + row * unit, unit, 0};
}

Result<ReplyTable> ReadReplyTable(const ReplyLayout& layout, std::span<const std::byte> table,
                                  std::uint64_t finished, std::uint64_t memory_bytes) {
  if (finished > layout.rows) {
    return DataLoss(
        fmt::format("the table of a reply: {} rows of {} are complete", finished, layout.rows));
  }
  if (memory_bytes < layout.heap) {
    return DataLoss(
        fmt::format("a reply of {} bytes, expected at least {}", memory_bytes, layout.heap));
  }
  ReplyTable read;
  read.layout = layout;
  for (std::uint64_t row = 0; row < finished; ++row) {
    const auto outcome =
        std::to_integer<std::uint8_t>(table[layout.outcomes - kReplyHeadBytes + row]);
    if (outcome < 1 || outcome > 3) {
      return DataLoss(fmt::format("the table of a reply: row {} has the outcome {}", row, outcome));
    }
    read.outcomes.push_back(static_cast<RowOutcome>(outcome));
  }
  std::uint64_t left = memory_bytes - layout.heap;
  read.ragged.resize(layout.types.size());
  for (std::size_t tensor = 0; tensor < layout.types.size(); ++tensor) {
    if (!layout.types[tensor].ragged) continue;
    MILLRACE_ASSIGN_OR_RETURN(read.ragged[tensor],
                              ReadPlaces(layout, tensor, read, table, memory_bytes, left));
  }
  return read;
}

}  // namespace millrace
