// A plan: pipeline, index and seed, compiled. It builds any batch from (epoch, units of the order)
// alone.
//
// Immutable after Compile; thread-safe. The caller provides scratch space, one for each thread.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "server/plan/facts/plan_facts.h"
#include "server/plan/order/make_order.h"
#include "server/plan/order/selection.h"
#include "server/plan/sliced_batch.h"

namespace millrace {

class Pipeline;
class PlanParts;
class BufferMemory;  // common/batch/buffer_memory.h
class Source;
class TensorPlan;   // server/plan/tensors/tensor_plan.h
class PackedBatch;  // common/batch/batch.h: an immutable view of header and payload, with its owner

/// Where an example occurs in an epoch.
struct ExamplePlaces {
  enum class Absence : std::uint8_t {
    kNone,      // it occurs
    kFiltered,  // in no epoch: the split or a filter leaves it out
    kAbove,     // in no epoch: no bucket holds its value
    kCut,       // not in this epoch: `remainder: drop` leaves its place out
  };
  std::vector<UnitRow> places;
  Absence why = Absence::kNone;
};

/// Memory that a thread reuses between the batches of one plan. Not thread-safe, except stage().
class BatchScratch {
 public:
  virtual ~BatchScratch() = default;

  /// Time spent in one stage of building, since the scratch was made.
  struct StageTime {
    std::string_view stage;  // lives as long as the scratch
    double seconds = 0;
  };
  /// Times for each stage, in the order in which the stages run. Always the same stages; several
  /// may have one name.
  virtual std::vector<StageTime> stage_times() const { return {}; }
  /// The stage that runs now. Empty before a batch begins and after its last stage. Thread-safe.
  virtual std::string_view stage() const { return {}; }
};

class Plan {
 public:
  /// `source`: with all that the pipeline puts around it (plan_source.h). FailedPrecondition or
  /// InvalidArgument with the reason if pipeline and source do not fit together.
  static Result<std::shared_ptr<const Plan>> Compile(const Pipeline& pipeline,
                                                     std::shared_ptr<const Source> source);
  /// Compiles parts, from whatever source. The given digests stand for the pipeline. Batches are
  /// built in `memory`; null: on the heap.
  static Result<std::shared_ptr<const Plan>> Compile(
      const PlanParts& parts, Digest128 pipeline, Digest128 order_pipeline,
      std::shared_ptr<const Source> source, std::shared_ptr<BufferMemory> memory = nullptr);
  virtual ~Plan() = default;

  virtual const PlanFacts& facts() const = 0;
  /// The tensors that travel.
  virtual const std::vector<TensorSpec>& tensors() const = 0;
  /// The computation before and after they travel; nullptr if the source's tensors are delivered as
  /// they are.
  virtual const TensorPlan* computed() const { return nullptr; }
  virtual const ExpandSpec& expand() const = 0;
  virtual const PlanCounts& counts() const = 0;
  /// The source of the examples; nullptr for a plan that a test made up.
  virtual const Source* source() const { return nullptr; }
  /// The split label of an example, in its branch. REQUIRES: the source has the example.
  virtual std::uint32_t SplitLabel(ExampleId /*example*/) const { return 0; }

  /// Serialized v1::Static. The bytes are made on request, and kept as long as somebody holds them.
  /// This takes about 0.1 s for a million labels.
  virtual std::shared_ptr<const std::string> static_bytes() const = 0;

  /// The order of an epoch, and its facts.
  virtual const PlannedOrder& planned_order() const = 0;
  // Below, examples are examples of source(): chunks, if the pipeline cuts examples
  // (Source::ChunkOf).

  /// The examples of consecutive units of an epoch, in order. REQUIRES: the epoch has the units.
  virtual std::vector<ExampleId> ExamplesOf(std::uint64_t epoch, ExampleRange units) const = 0;
  /// Whether epochs may have an example: the split, the filters and the buckets do not leave it
  /// out.
  virtual bool Selects(ExampleId example) const = 0;
  /// Every place of an example in an epoch, ascending, or why it has no place. Takes O(1) for each
  /// place, apart from the rank in the selection.
  virtual ExamplePlaces PlacesOf(std::uint64_t epoch, ExampleId example) const = 0;

  /// Frees memory that is kept for later batches and not in use.
  virtual void TrimMemory() const {}

  /// Builds the batch of the units [units.first, …) of an epoch. OutOfRange beyond the epoch;
  /// DataLoss that names the file if its data are damaged.
  virtual Result<std::shared_ptr<const PackedBatch>> Batch(std::uint64_t epoch, ExampleRange units,
                                                           BatchScratch& scratch) const = 0;
  /// The same for examples given by id, in that order, built as in an epoch. For tools (`millrace
  /// batch --examples`, `millrace digest`).
  virtual Result<std::shared_ptr<const PackedBatch>> BatchOf(std::span<const ExampleId> examples,
                                                             std::uint64_t epoch,
                                                             BatchScratch& scratch) const = 0;
  virtual std::unique_ptr<BatchScratch> NewScratch() const = 0;

  // --- One batch on several threads ----------------------------------------------------------
  /// Whether rows are made one by one (SourceFacts::by_row).
  virtual bool by_row() const { return false; }
  /// The pools of a plugin's processes that make rows, by PluginPool::number.
  virtual std::set<std::uint64_t> pools() const { return {}; }
  /// Begins a batch as Batch does, whose rows are then built in slices. The plan has to outlive it.
  /// REQUIRES: by_row().
  virtual Result<std::unique_ptr<SlicedBatch>> BeginSlices(std::uint64_t /*epoch*/,
                                                           ExampleRange /*units*/,
                                                           BatchScratch& /*scratch*/) const {
    return Unimplemented("this plan does not make rows one by one");
  }
};

}  // namespace millrace
