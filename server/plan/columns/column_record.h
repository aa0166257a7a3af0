// A record in the file of a column that is being measured: the values of one range.
// docs/formats/columns.md has the format.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "server/source/measured_values.h"

namespace millrace {

struct ColumnRecord {
  std::uint64_t first = 0;  // example
  MeasuredValues values;    // of at most kMeasuredRange examples
};

std::vector<std::byte> EncodeRecord(const ColumnRecord& record);

/// Takes a record off the front. DataLoss, and nothing is taken, if there is no whole record.
Result<ColumnRecord> TakeRecord(std::span<const std::byte>& in);

}  // namespace millrace
