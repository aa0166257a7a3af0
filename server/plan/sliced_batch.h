// A batch of which several threads build some rows each. It has the same bytes as if one thread had
// built it (Plan::Batch).
//
// Thread-safe as its functions say. It must not outlive its plan.
#pragma once

#include <cstddef>
#include <memory>

#include "common/base/result.h"

namespace millrace {

class BatchScratch;  // server/plan/plan.h
class PackedBatch;   // common/batch/batch.h

class SlicedBatch {
 public:
  virtual ~SlicedBatch() = default;

  /// The rows to build, dropped ones too.
  virtual std::size_t rows() const = 0;
  /// Builds the rows `first`, `first` + 1, …, `count` of them. Rows that follow the rows of an
  /// earlier call are the cheapest. Returns false if that fails; the rows from `first` on need not
  /// be built then. Thread-safe. REQUIRES: no other call is given any of these rows; no other
  /// thread uses the scratch.
  virtual bool Build(std::size_t first, std::size_t count, BatchScratch& scratch) = 0;
  /// Joins the rows, in their order, to the batch; or returns the error of the lowest rows that
  /// could not be built, or of the plan's source. REQUIRES: all rows below the failed ones were
  /// built; no other call runs, or follows.
  virtual Result<std::shared_ptr<const PackedBatch>> Join(BatchScratch& scratch) = 0;
};

}  // namespace millrace
