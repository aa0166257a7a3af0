// Which records a segment has, from its table or by a walk over the records themselves.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "server/plan/cache/cache_files.h"
#include "server/plan/cache/cache_format.h"

namespace millrace {

struct SegmentRecords {
  std::vector<SegmentEntry> entries;  // all are in the segment; their bytes are not checked
  // Where the next record will begin, if somebody still writes the segment.
  std::uint64_t end = sizeof(SegmentHeader);
};

/// Reads the header. DataLoss if it is not the header of a segment, FailedPrecondition if it is of
/// another version; any other error says that it cannot be read now.
Status ReadSegmentHeader(CacheFiles& files, const FileDescriptor& file);

/// The records of a segment of `bytes` bytes. If it has no table, the records from `from` on, up to
/// the first place without one. A segment without a table is being written, or its writer was
/// killed.
Result<SegmentRecords> ReadSegmentRecords(CacheFiles& files, const FileDescriptor& file,
                                          std::uint64_t bytes, std::uint64_t from);

}  // namespace millrace
