// A BatchReader that builds the batches of a plan in this process. It gives the same batches as a
// session, without a server.
//
// Thread safety: as BatchReader. Batches are built one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/batch_reader.h"
#include "client/local/local_plans.h"
#include "client/session_options.h"
#include "common/base/tables.h"
#include "common/batch/batch.h"
#include "common/system/mutex.h"
#include "server/plan/plan.h"
#include "server/source/document_packs.h"

namespace millrace {

/// The form in which a LocalReader gives batches.
enum class LocalForm : std::uint8_t {
  kDelivered,  // as a session does
  kPacked,     // as they travel, for tools and tests (ViewPacked)
};

class LocalReader final : public BatchReader {
 public:
  /// Uses only those options that decide about batches: pipeline, rank, world size, cursor, micro
  /// and the type of index numbers. Batches keep their packed form. Fails as CheckSessionOptions,
  /// ReadPipelineText and LocalPlans::Open do.
  static Result<std::unique_ptr<LocalReader>> Create(const SessionOptions& options,
                                                     LocalDatasets datasets,
                                                     LocalForm form = LocalForm::kDelivered);

  /// Opens the dataset, after indexing it if necessary, and compiles the plan.
  Status Attach(const Interrupt& interrupt) override;
  const BatchSpec& spec() const override { return spec_; }
  Result<std::optional<Batch>> Next(const Interrupt& interrupt) override;
  Result<bool> NextEpoch() override;
  Result<Batch> BatchAt(std::uint64_t epoch, std::uint64_t step,
                        const Interrupt& interrupt) override;
  std::uint64_t epoch() const override;
  Position position() const override;
  Result<std::shared_ptr<const NamedTables>> tables(const Interrupt& interrupt) override;
  Result<std::optional<ExampleDescription>> Describe(ExampleId example) const override;
  SessionStats stats() const override;
  std::string waiting_why() const override { return {}; }
  bool survives_fork() const override { return true; }
  void Cancel() override;

  // Only a local plan can answer the following. REQUIRES: attached.

  const Plan& plan() const { return *plan_; }
  /// OutOfRange for an example, or a row of packed documents, that the source does not have.
  Status CheckExample(ExampleId example) const;
  /// The pieces of documents that a row has in batches of an epoch; nullopt if the plan packs none.
  /// Reads the row's documents. OutOfRange as for CheckExample.
  Result<std::optional<std::vector<RowPiece>>> PiecesOf(ExampleId row, std::uint64_t epoch) const;
  /// The batch of the examples with these ids, in that order, as in an epoch; for examples that the
  /// pipeline cuts, all chunks. OutOfRange as for CheckExample.
  Result<Batch> BatchOf(std::span<const ExampleId> examples, std::uint64_t epoch);

 private:
  LocalReader(SessionOptions options, LocalPlans plans, LocalForm form);

  Status RequireNotCancelled() const;
  Result<Batch> BatchAtPosition(Position at);
  /// Calls `build` for a packed batch, and delivers it with the position `at`.
  Result<Batch> Deliver(
      Position at,
      const std::function<Result<std::shared_ptr<const PackedBatch>>(BatchScratch&)>& build);

  const SessionOptions options_;
  const LocalForm form_;
  LocalPlans plans_;
  std::shared_ptr<const Plan> plan_;     // written by Attach
  std::optional<StepArithmetic> steps_;  // written by Attach
  BatchSpec spec_;                       // written by Attach
  Delivery delivery_;                    // written by Attach
  std::atomic<bool> cancelled_ = false;

  Mutex build_mutex_;
  std::unique_ptr<BatchScratch> scratch_ MILLRACE_GUARDED_BY(build_mutex_);
  BufferPool pool_ MILLRACE_GUARDED_BY(build_mutex_);
  std::shared_ptr<const NamedTables> tables_ MILLRACE_GUARDED_BY(build_mutex_);

  mutable Mutex mutex_;
  Position at_ MILLRACE_GUARDED_BY(mutex_);  // of the next step
  std::uint64_t epoch_ MILLRACE_GUARDED_BY(mutex_) = 0;
  SessionStats stats_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
