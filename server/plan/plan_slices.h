// The slices of a batch of a compiled plan. Rows that follow one another are appended to one writer
// if no thread uses it, so that a batch built by one thread is copied no more than without slices.
//
// Thread-safe as SlicedBatch says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/batch_writer.h"
#include "common/epoch/position.h"
#include "common/system/mutex.h"
#include "server/plan/sliced_batch.h"

namespace millrace {

class PlanScratch;  // server/plan/plan_scratch.h

/// The part of a compiled plan that its slices need. Thread-safe; errors of Plan::Batch.
class RowMaker {
 public:
  virtual BatchWriter NewWriter() const = 0;
  /// Begins a batch in a writer.
  virtual void BeginRows(std::uint64_t epoch, std::uint64_t first_unit, std::size_t rows,
                         BatchWriter& writer) const = 0;
  /// Appends examples to the writer, or drops them.
  virtual Status ReadRows(PlanScratch& scratch, std::span<const ExampleId> examples,
                          BatchWriter& writer) const = 0;
  /// Makes the batch from the scratch's writer, if `read` is ok.
  virtual Result<std::shared_ptr<const PackedBatch>> FinishRows(
      PlanScratch& scratch, std::span<const ExampleId> examples, const Status& read) const = 0;

 protected:
  ~RowMaker() = default;
};

class PlanSlices final : public SlicedBatch {
 public:
  struct Rows {
    std::uint64_t epoch = 0;
    std::uint64_t first_unit = 0;
    std::vector<ExampleId> examples;
    std::vector<std::uint64_t> passes;  // empty if all belong to the epoch
  };

  /// `writer`: the writer of the first rows, which has memory from the batches before.
  PlanSlices(const RowMaker& maker, Rows rows, BatchWriter writer)
      : maker_(maker), rows_(std::move(rows)), first_writer_(std::move(writer)) {}

  std::size_t rows() const override { return rows_.examples.size(); }
  bool Build(std::size_t first, std::size_t count, BatchScratch& scratch) override;
  Result<std::shared_ptr<const PackedBatch>> Join(BatchScratch& scratch) override;

 private:
  /// Rows that follow one another, in a writer of their own.
  struct RowRun {
    RowRun(std::size_t begins, BatchWriter own)
        : first(begins), end(begins), writer(std::move(own)) {}
    std::size_t first;
    std::size_t end;
    bool in_use = true;  // a thread appends to it
    BatchWriter writer;
  };

  /// A run that ends at `first`, or a new one, for the calling thread.
  RowRun& RunFor(std::size_t first) MILLRACE_EXCLUDES(mutex_);

  const RowMaker& maker_;
  const Rows rows_;
  Mutex mutex_;
  std::optional<BatchWriter> first_writer_ MILLRACE_GUARDED_BY(mutex_);
  std::list<RowRun> runs_ MILLRACE_GUARDED_BY(mutex_);  // in the order in which they were begun
  /// The lowest rows that could not be built begin there.
  std::optional<std::pair<std::size_t, Status>> failed_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
