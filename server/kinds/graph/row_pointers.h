// Where the rows of a graph dataset begin and end: its array `indptr`, of either width.
//
// Immutable; thread-safe. Refers to the array's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/dtype.h"
#include "server/kinds/graph/format/graph_array.h"

namespace millrace {

class RowPointers {
 public:
  explicit RowPointers(const GraphArray& indptr)
      : data_(indptr.data), wide_(DTypeSize(indptr.type.dtype) == sizeof(std::uint64_t)) {}

  /// The two numbers of a row, which Load reads. They may be in two cache lines.
  const std::byte* BeginAt(std::uint64_t row) const { return data_ + (row << (wide_ ? 3 : 2)); }
  const std::byte* EndAt(std::uint64_t row) const { return BeginAt(row + 1); }

  /// Reads each number once, as the file may change. False unless they form a row of at most 2^32 -
  /// 1 entries below `entries`.
  bool Load(std::uint64_t row, std::uint64_t entries, std::uint64_t* begin,
            std::uint64_t* end) const {
    // All rows of an array take the same branch here, which a processor predicts.
    const std::byte* const at = BeginAt(row);
    if (wide_) {
      *begin = LoadOnce<std::uint64_t>(at);
      *end = LoadOnce<std::uint64_t>(at + sizeof(std::uint64_t));
    } else {
      *begin = LoadOnce<std::uint32_t>(at);
      *end = LoadOnce<std::uint32_t>(at + sizeof(std::uint32_t));
    }
    return (*begin <= *end) & ((*end - *begin) >> 32 == 0) & (*end <= entries);
  }

 private:
  const std::byte* data_;
  bool wide_;
};

}  // namespace millrace
