// The table of a reply, checked. The process may write to its memory at any time, so the daemon
// copies the table once and then reads only the copy. Values are read in place; whatever the
// process writes there meanwhile, their places stay within the memory.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "server/plugin/reply/reply_layout.h"

namespace millrace {

/// The process uses the same numbers.
enum class RowOutcome : std::uint8_t { kUnknown = 0, kDone = 1, kDropped = 2, kFailed = 3 };

/// Where the values of one tensor are, in one row.
struct RowPlace {
  std::uint64_t offset = 0;  // from the start of the memory
  std::uint64_t bytes = 0;
  std::uint64_t extent = 0;  // the first one, of a ragged tensor
};

struct ReplyTable {
  ReplyLayout layout;
  /// The outcomes of the rows that the process finished: the first ones; never kUnknown.
  std::vector<RowOutcome> outcomes;
  /// The place of each finished row of the ragged tensors. Empty for dense ones.
  std::vector<std::vector<RowPlace>> ragged;

  /// Where the values of a finished row are. REQUIRES: its outcome is kDone.
  RowPlace Place(std::size_t tensor, std::uint64_t row) const;
};

/// Checks the table, of which `finished` rows are complete. `table` is a copy of the bytes
/// [kReplyHeadBytes, layout.columns) of the memory, which has `memory_bytes` bytes. DataLoss that
/// names row and number if a number is wrong: an outcome that does not exist, values outside the
/// heap or not at a multiple of their size, or more values than the heap has bytes. REQUIRES:
/// layout is of LayOutReply; table has layout.TableBytes().
Result<ReplyTable> ReadReplyTable(const ReplyLayout& layout, std::span<const std::byte> table,
                                  std::uint64_t finished, std::uint64_t memory_bytes);

}  // namespace millrace
