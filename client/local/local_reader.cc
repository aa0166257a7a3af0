#include "client/local/local_reader.h"

#include <utility>

#include <fmt/core.h>

#include "client/session/machine/session_actions.h"
#include "client/session/run/batch_counts.h"
#include "client/session/run/batch_rep.h"
#include "client/session/run/spec_from_proto.h"
#include "common/epoch/cursor.h"
#include "common/expand/expand.h"
#include "common/transport/convert/tables.h"
#include "server/source/source.h"

namespace millrace {
namespace {

/// There is no other worker that could try what a user's code failed to build.
Status WithoutRetry(const Status& status) {
  return status.code() == StatusCode::kAborted ? DataLoss(status.message()) : status;
}

}  // namespace

Result<std::unique_ptr<LocalReader>> LocalReader::Create(const SessionOptions& options,
                                                         LocalDatasets datasets, LocalForm form) {
  MILLRACE_RETURN_IF_ERROR(CheckSessionOptions(options));
  PipelineSource source;
  MILLRACE_ASSIGN_OR_RETURN(source.yaml, ReadPipelineText(options));
  source.variant = options.variant;
  source.overrides = options.overrides;
  MILLRACE_ASSIGN_OR_RETURN(LocalPlans plans, LocalPlans::Open(source, std::move(datasets)));
  return std::unique_ptr<LocalReader>(new LocalReader(options, std::move(plans), form));
}

LocalReader::LocalReader(SessionOptions options, LocalPlans plans, LocalForm form)
    : options_(std::move(options)), form_(form), plans_(std::move(plans)) {}

Status LocalReader::Attach(const Interrupt& /*interrupt*/) {
  MILLRACE_RETURN_IF_ERROR(RequireNotCancelled());
  MILLRACE_ASSIGN_OR_RETURN(plan_, plans_.Compile());
  MILLRACE_ASSIGN_OR_RETURN(steps_, plan_->facts().Steps(options_.world_size));
  Position wanted;
  if (!options_.cursor.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(wanted,
                              Cursor::PlaceIn(plan_->facts().order_fingerprint(), options_.cursor));
  }
  client::Admission admission;
  admission.fingerprint = plan_->facts().fingerprint();
  MILLRACE_ASSIGN_OR_RETURN(admission.start, steps_->Start(wanted));
  MILLRACE_ASSIGN_OR_RETURN(admission.spec, plan_->facts().Spec(options_.world_size));
  MILLRACE_ASSIGN_OR_RETURN(client::AdmittedPlan admitted,
                            client::PlanFromProto(admission, options_.index_dtype, options_.micro));
  spec_ = std::move(admitted.spec);
  delivery_ = std::move(admitted.delivery);
  {
    MutexLock lock(build_mutex_);
    scratch_ = plan_->NewScratch();
  }
  MutexLock lock(mutex_);
  stats_.drop_reasons = spec_.drop_reasons;
  at_ = admission.start;
  epoch_ = at_.epoch;
  return OkStatus();
}

Result<std::optional<Batch>> LocalReader::Next(const Interrupt& /*interrupt*/) {
  Position at;
  {
    MutexLock lock(mutex_);
    if (at_.epoch != epoch_) return std::optional<Batch>();
    at = at_;
  }
  MILLRACE_ASSIGN_OR_RETURN(const Batch batch, BatchAtPosition(at));
  MutexLock lock(mutex_);
  at_ = steps_->Next(at);
  stats_.Add(client::CountsOf(*batch.packed(), spec_.token_tensor));
  stats_.bytes += batch.packed()->payload().size();
  return std::optional<Batch>(batch);
}

Result<bool> LocalReader::NextEpoch() {
  MILLRACE_RETURN_IF_ERROR(RequireNotCancelled());
  MutexLock lock(mutex_);
  if (at_.epoch == epoch_) {
    return FailedPrecondition(fmt::format(
        "batches of epoch {} are left: take them with Next, until it gives none", epoch_));
  }
  epoch_ = at_.epoch;
  return true;
}

Result<Batch> LocalReader::BatchAt(std::uint64_t epoch, std::uint64_t step,
                                   const Interrupt& /*interrupt*/) {
  MILLRACE_ASSIGN_OR_RETURN(const Position at, steps_->StepAt(epoch, step));
  return BatchAtPosition(at);
}

std::uint64_t LocalReader::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

Position LocalReader::position() const {
  MutexLock lock(mutex_);
  return at_;
}

SessionStats LocalReader::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

Result<std::shared_ptr<const NamedTables>> LocalReader::tables(const Interrupt& /*interrupt*/) {
  MutexLock lock(build_mutex_);
  if (tables_ == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(NamedTables tables, DecodeTables(*plan_->static_bytes()));
    tables_ = std::make_shared<const NamedTables>(std::move(tables));
  }
  return tables_;
}

Result<std::optional<ExampleDescription>> LocalReader::Describe(ExampleId example) const {
  MILLRACE_RETURN_IF_ERROR(CheckExample(example));
  return std::optional<ExampleDescription>(plan_->source()->Describe(example));
}

void LocalReader::Cancel() {
  cancelled_ = true;
  plans_.Stop();
}

Status LocalReader::RequireNotCancelled() const {
  return cancelled_ ? Cancelled("the session was cancelled") : OkStatus();
}

Status LocalReader::CheckExample(ExampleId example) const {
  const std::uint64_t examples = plan_->source()->whole_examples();
  if (example.value() < examples) return OkStatus();
  const char* const what = plan_->source()->facts().packed ? "row" : "example";
  return OutOfRange(fmt::format("{} {}: there are {}", what, example.value(), examples));
}

Result<std::optional<std::vector<RowPiece>>> LocalReader::PiecesOf(ExampleId row,
                                                                   std::uint64_t epoch) const {
  MILLRACE_RETURN_IF_ERROR(CheckExample(row));
  const Source* source = plan_->source();
  std::uint64_t own = row.value();
  if (const auto branches = source->branches(); !branches.empty()) {
    const SourceBranch& branch = branches[BranchOf(branches, row)];
    source = branch.source.get();
    own -= branch.first;
  }
  if (source->packs() == nullptr) return std::optional<std::vector<RowPiece>>();
  auto pieces = source->packs()->PiecesIn(epoch, ExampleId(own));
  MILLRACE_RETURN_IF_ERROR(WithoutRetry(pieces.status()));
  return std::optional(*std::move(pieces));
}

Result<Batch> LocalReader::BatchOf(std::span<const ExampleId> examples, std::uint64_t epoch) {
  for (const ExampleId example : examples) MILLRACE_RETURN_IF_ERROR(CheckExample(example));
  const std::vector<ExampleId> chunks = AllChunksOf(*plan_->source(), examples);
  return Deliver({epoch, 0},
                 [&](BatchScratch& scratch) { return plan_->BatchOf(chunks, epoch, scratch); });
}

Result<Batch> LocalReader::BatchAtPosition(Position at) {
  const ExampleRange range = steps_->RankExamples(at, options_.rank);
  return Deliver(at, [&](BatchScratch& scratch) { return plan_->Batch(at.epoch, range, scratch); });
}

Result<Batch> LocalReader::Deliver(
    Position at,
    const std::function<Result<std::shared_ptr<const PackedBatch>>(BatchScratch&)>& build) {
  MILLRACE_RETURN_IF_ERROR(RequireNotCancelled());
  auto rep = std::make_shared<Batch::Rep>();
  MutexLock lock(build_mutex_);
  auto packed = build(*scratch_);
  MILLRACE_RETURN_IF_ERROR(WithoutRetry(packed.status()));
  rep->packed = *std::move(packed);
  if (form_ == LocalForm::kPacked) rep->micro_batches.push_back(ViewPacked(rep->packed));
  const std::size_t examples = rep->packed->examples();
  while (rep->micro_batches.size() < options_.micro) {
    const std::size_t index = rep->micro_batches.size();
    MILLRACE_ASSIGN_OR_RETURN(
        auto delivered,
        Expand(*rep->packed, delivery_, pool_, RowsOfMicroBatch(examples, index, options_.micro)));
    rep->micro_batches.push_back(std::move(delivered));
  }
  rep->position = at;
  rep->step = steps_->Step(at);
  rep->ordinal = steps_->Ordinal(at, options_.rank);
  rep->rank = options_.rank;
  return Batch(std::move(rep));
}

}  // namespace millrace
