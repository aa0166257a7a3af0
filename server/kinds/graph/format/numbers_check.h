// Reads every number of a graph dataset.
//
// A free function, thread-safe.
#pragma once

#include <stop_token>

#include "common/base/result.h"
#include "server/kinds/graph/format/graph_dataset.h"

namespace millrace {

struct CheckNumbersOptions {
  unsigned threads = 0;  // 0: one for each CPU that the process may use
  std::stop_token stop;
};

/// Checks rows, labels, lists of roots and of small graphs: each number is within its bounds,
/// labels ascend within a row, and no edge leads from one small graph to another. OK, or DataLoss
/// with file, array and place of a wrong number, or Cancelled.
Status CheckNumbers(const GraphDataset& dataset, const CheckNumbersOptions& options);

}  // namespace millrace
