// Where the parts of a reply are in the memory that a process of a plugin shares with the daemon.
// The daemon lays a reply out and sends the layout to the process
// (server/plugin/python/_millrace_memory.py).
//
//   head      64 bytes: words of 64 bits
//   outcomes  one byte per row
//   table     of each ragged tensor two words per row: the place of its values, its first extent
//   columns   of each dense tensor its values, row after row
//   heap      values of ragged tensors; it may grow, at the end of the memory
//
// Everything begins at a multiple of 64 bytes, values of ragged tensors at multiples of their size.
// Numbers are little endian.
//
// Value types and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "common/tensor/tensor_type.h"

namespace millrace {

/// Words of the head.
inline constexpr std::size_t kReplyRowWord = 0;       // the row in work
inline constexpr std::size_t kReplyAtOnceWord = 1;    // 1 while one call builds all rows
inline constexpr std::size_t kReplyCompleteWord = 2;  // how many of the first rows are complete
inline constexpr std::uint64_t kReplyHeadBytes = 64;

/// The most rows of a reply, and bytes without its heap.
inline constexpr std::uint64_t kMaxReplyRows = std::uint64_t{1} << 24;
inline constexpr std::uint64_t kMaxReplyBytes = std::uint64_t{1} << 40;

struct ReplyLayout {
  std::vector<TensorType> types;
  std::uint64_t rows = 0;
  std::uint64_t outcomes = 0;         // place of the outcomes
  std::vector<std::uint64_t> places;  // of each tensor: its column, or its part of the table
  std::uint64_t columns = 0;          // end of the table; columns are between it and the heap
  std::uint64_t heap = 0;

  /// Outcomes and table: the bytes [kReplyHeadBytes, columns).
  std::uint64_t TableBytes() const { return columns - kReplyHeadBytes; }
};

/// InvalidArgument if there are too many rows or bytes.
Result<ReplyLayout> LayOutReply(const std::vector<TensorType>& types, std::uint64_t rows);

}  // namespace millrace
