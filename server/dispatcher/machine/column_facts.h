// The state of columns that are being measured, as a dispatcher knows it. It is plain data;
// DispatcherFacts holds it, and nothing else changes it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/dispatcher/machine/range_table.h"

namespace millrace {

/// Columns that have to be measured before a plan compiles.
struct ColumnWant {
  v1::ColumnSet set;
  std::vector<std::uint64_t> measured;  // ranges that an earlier process has measured
};

/// A worker that could not measure some examples.
struct FailingMeasurer {
  Status why;
  bool for_good = false;  // it never can
  Time until;             // it gets no more ranges before that
};

/// Columns of one source that workers measure together.
struct ColumnFacts {
  std::string key;  // the ColumnSetKey of `set`
  v1::ColumnSet set;
  v1::PipelineText pipeline;  // one that reads them
  RangeTable ranges;
  std::map<WorkerId, std::uint64_t> share;  // how many ranges a worker may have at once
  std::map<WorkerId, FailingMeasurer> failing;
  bool whole = false;  // all ranges are measured, and are being kept
  Time began;
  Time told;  // when progress was logged
};

/// The key of columns. Equal sets have one key, and the same values.
std::string ColumnSetKey(const v1::ColumnSet& set);

/// InvalidArgument, with the error, unless a worker's message has values of a whole range, in the
/// form of `set`.
Status CheckMeasured(const ColumnFacts& columns, const v1::Measured& measured);

}  // namespace millrace
