#include "server/plan/plan.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "common/batch/batch_writer.h"
#include "common/system/mutex.h"
#include "server/plan/make_plan_facts.h"
#include "server/plan/order/make_order.h"
#include "server/plan/order/selections.h"
#include "server/plan/pipeline_parts.h"
#include "server/plan/plan_scratch.h"
#include "server/plan/plan_slices.h"
#include "server/plan/static_data.h"
#include "server/plan/tensors/tensor_plan.h"
#include "server/plan/text/pipeline.h"
#include "server/source/mix_parts.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {
namespace {

/// `parts`: those that the source was made of.
Status CheckExcludedOf(const PlanParts& parts, const Source& source) {
  const std::vector<std::uint64_t>& excluded = parts.Get<ExcludePart>().examples;
  const DocumentPacks* const packs = source.packs();
  const std::uint64_t examples =
      packs == nullptr ? source.whole_examples() : packs->documents().examples();
  if (excluded.empty() || excluded.back() < examples) return OkStatus();
  return AtKey(parts, InvalidArgument(fmt::format(
                          "exclude.examples: there is no example {}: the source has {}, from 0 on",
                          excluded.back(), examples)));
}

Status CheckExcluded(const PlanParts& parts, const Source& source) {
  const std::vector<BranchPart>& branches = parts.Get<BranchesPart>().branches;
  if (branches.empty()) return CheckExcludedOf(parts, source);
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const Status checked = CheckExcludedOf(branches[i].parts, *source.branches()[i].source);
    if (!checked.ok()) return checked.WithContext(fmt::format("branch {}", branches[i].name));
  }
  return OkStatus();
}

/// The examples that are dropped in their places, of all branches, unless the source does it.
/// Documents are dropped from their rows, by the readers of rows.
std::vector<std::uint64_t> ExcludedOf(const PlanParts& parts, const Source& source) {
  if (source.facts().drops_excluded || source.facts().packed) return {};
  std::vector<std::uint64_t> excluded = parts.Get<ExcludePart>().examples;
  const std::vector<BranchPart>& branches = parts.Get<BranchesPart>().branches;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    for (const std::uint64_t id : branches[i].parts.Get<ExcludePart>().examples) {
      excluded.push_back(source.branches()[i].first + id);
    }
  }
  return excluded;
}

class CompiledPlan final : public Plan, public RowMaker {
 public:
  CompiledPlan(const PlanParts& parts, Fingerprint fingerprint, Fingerprint order_fingerprint,
               std::shared_ptr<const Source> source, Selections selections, PlannedOrder order,
               std::shared_ptr<const TensorPlan> computed, std::shared_ptr<BufferMemory> memory)
      : source_(std::move(source)),
        selections_(std::move(selections)),
        counts_(CountsOf(selections_, order)),
        order_(std::move(order)),
        excluded_(ExcludedOf(parts, *source_)),
        computed_(std::move(computed)),
        facts_(MakePlanFacts(fingerprint, order_fingerprint, *source_, computed_.get(),
                             StepsOf(parts.Get<BatchPart>(), *order_.order), order_)),
        pool_(BufferPool::kDefaultCacheBytes, std::move(memory)) {}

  const PlanFacts& facts() const override { return facts_; }
  void TrimMemory() const override { pool_.Trim(); }
  const std::vector<TensorSpec>& tensors() const override {
    return computed_ == nullptr ? source_->tensors() : computed_->tensors();
  }
  const TensorPlan* computed() const override { return computed_.get(); }
  const ExpandSpec& expand() const override { return source_->expand(); }
  const PlanCounts& counts() const override { return counts_; }
  const Source* source() const override { return source_.get(); }
  std::uint32_t SplitLabel(ExampleId example) const override {
    return selections_.SplitLabel(example);
  }

  std::shared_ptr<const std::string> static_bytes() const override;

  const PlannedOrder& planned_order() const override { return order_; }
  std::vector<ExampleId> ExamplesOf(std::uint64_t epoch, ExampleRange units) const override;
  bool Selects(ExampleId example) const override {
    const std::optional<OrderRow> row = selections_.RowOf(example);
    return row && order_.order->HasRow(*row);
  }
  ExamplePlaces PlacesOf(std::uint64_t epoch, ExampleId example) const override;

  Result<std::shared_ptr<const PackedBatch>> Batch(std::uint64_t epoch, ExampleRange units,
                                                   BatchScratch& scratch) const override;
  Result<std::shared_ptr<const PackedBatch>> BatchOf(std::span<const ExampleId> examples,
                                                     std::uint64_t epoch,
                                                     BatchScratch& scratch) const override;
  bool by_row() const override { return source_->facts().by_row(); }
  std::set<std::uint64_t> pools() const override { return source_->facts().pools; }
  Result<std::unique_ptr<SlicedBatch>> BeginSlices(std::uint64_t epoch, ExampleRange units,
                                                   BatchScratch& scratch) const override;
  Result<BatchWriter> MakeWriter() const {
    MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer,
                              BatchWriter::Create(source_->tensors(), expand(), pool_));
    const LateRows* const late = source_->late_rows();
    if (late == nullptr) return writer;
    for (const std::size_t tensor : late->tensors()) {
      if (computed_ == nullptr || !computed_->Reads(tensor)) writer.AllowLate(tensor, *late);
    }
    return writer;
  }
  std::unique_ptr<BatchScratch> NewScratch() const override {
    auto order = order_.order->NewReader();
    if (computed_ == nullptr) {
      return std::make_unique<PlanScratch>(
          this, std::move(order), *MakeWriter(), source_->NewReader(), nullptr,
          std::span<const std::string>(), source_->facts().reading_stage);
    }
    return std::make_unique<PlanScratch>(this, std::move(order), *MakeWriter(),
                                         source_->NewReader(), computed_->NewScratch(),
                                         computed_->phases(), source_->facts().reading_stage);
  }

 private:
  static PlanCounts CountsOf(const Selections& selections, const PlannedOrder& order) {
    PlanCounts counts = selections.counts();
    counts.above = order.above;
    return counts;
  }
  static StepOptions StepsOf(const BatchPart& batch, const Order& order);
  /// Finds the rows of units of an epoch, and their examples, for a batch that begins with that.
  Status FindRows(PlanScratch& scratch, std::uint64_t epoch, ExampleRange units) const;
  /// The passes of these rows; none if all belong to the epoch, or if no example depends on its
  /// pass.
  std::vector<std::uint64_t> PassesOf(std::span<const OrderRow> rows) const;
  /// Gives a batch of examples the bound of its bucket, if a tensor is padded to it.
  void NoteBound(std::span<const ExampleId> examples, BatchWriter& writer) const;

  BatchWriter NewWriter() const override { return *MakeWriter(); }
  void BeginRows(std::uint64_t epoch, std::uint64_t first_unit, std::size_t rows,
                 BatchWriter& writer) const override {
    writer.Begin(facts_.fingerprint(), epoch, first_unit, static_cast<std::uint32_t>(rows));
  }
  Status ReadRows(PlanScratch& scratch, std::span<const ExampleId> examples,
                  BatchWriter& writer) const override;
  /// Fails too if the source is no longer intact after the last read.
  Result<std::shared_ptr<const PackedBatch>> FinishRows(PlanScratch& scratch,
                                                        std::span<const ExampleId> examples,
                                                        const Status& read) const override;
  Result<std::shared_ptr<const PackedBatch>> Assemble(PlanScratch& scratch) const;

  const std::shared_ptr<const Source> source_;
  const Selections selections_;
  const PlanCounts counts_;
  const PlannedOrder order_;
  const std::vector<std::uint64_t> excluded_;         // ids that are dropped, ascending
  const std::shared_ptr<const TensorPlan> computed_;  // null: the source's tensors travel
  const PlanFacts facts_;
  mutable Mutex mutex_;
  mutable std::weak_ptr<const std::string> static_bytes_ MILLRACE_GUARDED_BY(mutex_);
  mutable BufferPool pool_;
};

StepOptions CompiledPlan::StepsOf(const BatchPart& batch, const Order& order) {
  StepOptions steps;
  steps.examples = order.units();
  steps.keep = batch.keep;
  if (order.unit_is_batch()) {
    steps.size = 1;
    steps.unit_rows = order.max_rows();
  } else {
    steps.size = batch.size;
    steps.global_size = batch.global_size;
  }
  return steps;
}

std::vector<ExampleId> CompiledPlan::ExamplesOf(std::uint64_t epoch, ExampleRange units) const {
  std::vector<OrderRow> rows;
  order_.order->NewReader()->Rows(epoch, units, rows);
  std::vector<ExampleId> examples;
  for (const OrderRow& row : rows) examples.push_back(selections_.At(row));
  return examples;
}

ExamplePlaces CompiledPlan::PlacesOf(std::uint64_t epoch, ExampleId example) const {
  using enum ExamplePlaces::Absence;
  const std::optional<OrderRow> row = selections_.RowOf(example);
  if (!row) return {{}, kFiltered};
  ExamplePlaces found;
  order_.order->NewReader()->Places(epoch, *row, found.places);
  if (!found.places.empty()) return found;
  found.why = order_.order->HasRow(*row) ? kCut : kAbove;
  return found;
}

std::shared_ptr<const std::string> CompiledPlan::static_bytes() const {
  // Others that ask meanwhile wait, and then get the same bytes.
  MutexLock lock(mutex_);
  std::shared_ptr<const std::string> bytes = static_bytes_.lock();
  if (bytes == nullptr) {
    bytes = std::make_shared<const std::string>(MakeStaticBytes(*source_));
    static_bytes_ = bytes;
  }
  return bytes;
}

Result<std::shared_ptr<const PackedBatch>> CompiledPlan::FinishRows(
    PlanScratch& scratch, std::span<const ExampleId> examples, const Status& read) const {
  NoteBound(examples, scratch.writer());
  Result<std::shared_ptr<const PackedBatch>> batch =
      read.ok() ? Assemble(scratch) : Result<std::shared_ptr<const PackedBatch>>(read);
  // The files are checked after the last read. Damage explains any other error, so it is reported
  // first.
  MILLRACE_RETURN_IF_ERROR(source_->CheckIntact());
  return batch;
}

void CompiledPlan::NoteBound(std::span<const ExampleId> examples, BatchWriter& writer) const {
  if (computed_ == nullptr || computed_->padded_to_bound().empty()) return;
  std::vector<std::uint64_t> rows;
  for (const ExampleId example : examples) {
    const std::optional<OrderRow> row = selections_.RowOf(example);
    if (!row) return;  // no bucket holds it
    rows.push_back(row->row);
  }
  const std::optional<std::uint64_t> bound = BoundOf(order_, rows);
  if (bound) writer.SetBound(static_cast<std::uint32_t>(*bound));
}

Status CompiledPlan::ReadRows(PlanScratch& scratch, std::span<const ExampleId> examples,
                              BatchWriter& writer) const {
  if (excluded_.empty()) return scratch.reader().Append(examples, writer);
  const auto is_excluded = [&](ExampleId id) {
    return std::binary_search(excluded_.begin(), excluded_.end(),
                              source_->ChunkOf(id).example.value());
  };
  while (!examples.empty()) {
    const auto found = std::find_if(examples.begin(), examples.end(), is_excluded);
    const auto before = static_cast<std::size_t>(found - examples.begin());
    MILLRACE_RETURN_IF_ERROR(scratch.reader().Append(examples.first(before), writer));
    if (found == examples.end()) break;
    writer.AddDropped(source_->ChunkOf(*found).example, DropReason::kExcluded);
    examples = examples.subspan(before + 1);
  }
  return OkStatus();
}

Result<std::shared_ptr<const PackedBatch>> CompiledPlan::Assemble(PlanScratch& scratch) const {
  if (computed_ != nullptr) {
    MILLRACE_RETURN_IF_ERROR(
        computed_->Compute(scratch.writer(), scratch.tensors(), &scratch.clock()));
  }
  scratch.clock().Next(TimedStage::kBatch);
  auto batch = computed_ == nullptr ? scratch.writer().Seal()
                                    : computed_->Seal(scratch.writer(), scratch.tensors(), pool_);
  scratch.clock().End();
  return batch;
}

Status CompiledPlan::FindRows(PlanScratch& scratch, std::uint64_t epoch, ExampleRange units) const {
  const std::uint64_t n = order_.order->units();
  if (units.first > n || units.count > n - units.first) {
    return OutOfRange(fmt::format("places {} to {} of an epoch: it has {} {}", units.first,
                                  units.first + units.count, n,
                                  order_.order->unit_is_batch() ? "batches" : "examples"));
  }
  if (scratch.plan() != this) return Internal("the scratch belongs to another plan");
  scratch.clock().Begin(TimedStage::kShuffle);
  scratch.rows().clear();
  scratch.order().Rows(epoch, units, scratch.rows());
  scratch.examples().clear();
  for (const OrderRow& row : scratch.rows()) scratch.examples().push_back(selections_.At(row));
  return OkStatus();
}

std::vector<std::uint64_t> CompiledPlan::PassesOf(std::span<const OrderRow> rows) const {
  std::vector<std::uint64_t> passes;
  if (!source_->facts().varies || !order_.order->has_passes()) return passes;
  for (const OrderRow& row : rows) passes.push_back(row.pass);
  return passes;
}

Result<std::shared_ptr<const PackedBatch>> CompiledPlan::Batch(std::uint64_t epoch,
                                                               ExampleRange units,
                                                               BatchScratch& scratch) const {
  auto& own = static_cast<PlanScratch&>(scratch);
  MILLRACE_RETURN_IF_ERROR(FindRows(own, epoch, units));
  BeginRows(epoch, units.first, own.rows().size(), own.writer());
  own.writer().SetPasses(PassesOf(own.rows()));
  own.clock().Next(TimedStage::kReading);
  return FinishRows(own, own.examples(), ReadRows(own, own.examples(), own.writer()));
}

Result<std::unique_ptr<SlicedBatch>> CompiledPlan::BeginSlices(std::uint64_t epoch,
                                                               ExampleRange units,
                                                               BatchScratch& scratch) const {
  auto& own = static_cast<PlanScratch&>(scratch);
  MILLRACE_RETURN_IF_ERROR(FindRows(own, epoch, units));
  PlanSlices::Rows rows{epoch, units.first, own.examples(), PassesOf(own.rows())};
  BatchWriter used = std::exchange(own.writer(), NewWriter());
  own.clock().End();
  return std::unique_ptr<SlicedBatch>(
      std::make_unique<PlanSlices>(*this, std::move(rows), std::move(used)));
}

Result<std::shared_ptr<const PackedBatch>> CompiledPlan::BatchOf(
    std::span<const ExampleId> examples, std::uint64_t epoch, BatchScratch& scratch) const {
  if (examples.size() > std::numeric_limits<std::uint32_t>::max()) {
    return OutOfRange(fmt::format("a batch of {} examples: expected at most {}", examples.size(),
                                  std::numeric_limits<std::uint32_t>::max()));
  }
  for (const ExampleId example : examples) {
    if (example.value() >= source_->examples()) {
      return OutOfRange(fmt::format("example {}: the pipeline's source has {} examples, from 0 on",
                                    example.value(), source_->examples()));
    }
  }
  auto& own = static_cast<PlanScratch&>(scratch);
  if (own.plan() != this) return Internal("the scratch belongs to another plan");
  own.clock().Begin(TimedStage::kReading);
  BeginRows(epoch, 0, examples.size(), own.writer());
  return FinishRows(own, examples, ReadRows(own, examples, own.writer()));
}

/// Checks that batches have bounds to which a tensor can be padded, if one is.
Status CheckBounds(const TensorPlan& computed, const TensorsPart& part, const PlannedOrder& order) {
  const std::string& name = computed.padded_to_bound();
  if (name.empty()) return OkStatus();
  if (order.buckets.empty()) {
    return AtOrigin(part, InvalidArgument(fmt::format(
                              "{}: to: expected batch.bucket beside 'bound', whose bounds these "
                              "are; without buckets, write a number of elements",
                              name)));
  }
  if (order.buckets.back().bound > kMaxClassBound) {
    return AtOrigin(part, InvalidArgument(fmt::format(
                              "{}: to: the last bound of batch.bucket is {}; a row has at most {} "
                              "elements",
                              name, order.buckets.back().bound, kMaxClassBound)));
  }
  return OkStatus();
}

}  // namespace

Result<std::shared_ptr<const Plan>> Plan::Compile(const Pipeline& pipeline,
                                                  std::shared_ptr<const Source> source) {
  MILLRACE_ASSIGN_OR_RETURN(const PlanParts parts, PartsOfPipeline(pipeline));
  return Compile(parts, pipeline.digest(), pipeline.order_digest(), std::move(source));
}

Result<std::shared_ptr<const Plan>> Plan::Compile(const PlanParts& parts, Digest128 pipeline,
                                                  Digest128 order_pipeline,
                                                  std::shared_ptr<const Source> source,
                                                  std::shared_ptr<BufferMemory> memory) {
  const std::string& wanted = parts.Get<SourcePart>().name;
  if (source->branches().empty() && wanted != source->name()) {
    return InvalidArgument(fmt::format("the pipeline draws from '{}', but the source is '{}'",
                                       wanted, source->name()));
  }
  MILLRACE_RETURN_IF_ERROR(CheckExcluded(parts, *source));
  Result<Selections> selected = Selections::Make(source, parts);
  if (!selected.ok()) return AtKey(parts, selected.status());
  Selections selections = *std::move(selected);
  Result<PlannedOrder> order = MakeOrder(source, selections, parts);
  if (!order.ok()) return AtKey(parts, order.status());
  std::shared_ptr<const TensorPlan> computed;
  if (const auto& tensors = parts.Get<TensorsPart>(); !tensors.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(computed, TensorPlan::Compile(tensors, source->tensors(),
                                                            source->expand(), source->arrays()));
    MILLRACE_RETURN_IF_ERROR(CheckBounds(*computed, tensors, *order));
  }
  const Digest128 dataset = source->digest();
  auto plan = std::make_shared<const CompiledPlan>(
      parts, Fingerprint{dataset, pipeline}, Fingerprint{dataset, order_pipeline},
      std::move(source), std::move(selections), *std::move(order), std::move(computed),
      std::move(memory));
  // Makes sure that NewScratch cannot fail later.
  MILLRACE_RETURN_IF_ERROR(plan->MakeWriter().status());
  MILLRACE_RETURN_IF_ERROR(plan->source()->CheckIntact());
  return std::shared_ptr<const Plan>(std::move(plan));
}

}  // namespace millrace
