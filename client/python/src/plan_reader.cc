// Batches built in this process, without a server, and batches from files.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/core.h>

#include "client/python/src/batch.h"
#include "client/python/src/calls.h"
#include "client/python/src/errors.h"
#include "client/python/src/options.h"
#include "client/python/src/reader.h"
#include "client/session/run/spec_from_proto.h"
#include "client/session/run/static_tables.h"
#include "common/base/log.h"
#include "common/batch/batch.h"
#include "common/epoch/cursor.h"
#include "common/expand/expand.h"
#include "common/system/stderr_logger.h"
#include "server/dataset/source.h"
#include "server/pipeline/plan.h"
#include "server/pipeline/plan_library.h"
#include "server/pipeline/text/pipeline.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

/// What is said of a pipeline, a dataset and a rank.
struct PlanOptions {
  std::string pipeline;
  std::string variant;
  std::vector<std::string> overrides;
  std::map<std::string, std::string> datasets;  // id -> folder; "" stands for the pipeline's own
  std::string index_file;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t micro = 1;
  DType index_dtype = DType::kInt32;
  std::string cursor;
};

PlanOptions ReadOptions(nb::dict options) {
  PlanOptions plan;
  TakeOption(options, "pipeline", &plan.pipeline);
  TakeOption(options, "variant", &plan.variant);
  TakeOption(options, "overrides", &plan.overrides);
  TakeOption(options, "datasets", &plan.datasets);
  TakeOption(options, "index_file", &plan.index_file);
  TakeOption(options, "rank", &plan.rank);
  TakeOption(options, "world_size", &plan.world_size);
  TakeOption(options, "micro", &plan.micro);
  plan.index_dtype = TakeIndexDType(options);
  TakeOption(options, "cursor", &plan.cursor);
  RequireNoMore(options);
  return plan;
}

Result<nb::object> Deliver(const std::shared_ptr<const PackedBatch>& packed, DType index_dtype,
                           std::uint32_t parts, BufferPool& pool, const BatchPlace& place) {
  nb::list list;
  for (std::uint32_t part = 0; part < parts; ++part) {
    Result<std::shared_ptr<const DeliveredBatch>> delivered = WithoutGil([&] {
      return Expand(*packed, index_dtype, pool, RowsOfPart(packed->graphs(), part, parts));
    });
    if (!delivered.ok()) return delivered.status();
    const DeliveredBatch& batch = **delivered;
    list.append(MakeBatch(std::make_shared<HeldBatch>(*delivered, batch.tensors(), batch.info(),
                                                      packed, place, parts, DropReasonNames())));
  }
  if (parts == 1) return nb::object(list[0]);
  return nb::object(nb::tuple(list));
}

/// Reads a plan as SessionReader reads a session.
class PlanReader {
 public:
  explicit PlanReader(const PlanOptions& options) : options_(options) {
    RaiseUnlessOk(WithoutGil([this] { return Open(); }));
    calls_ = Calls::Make([] {}, [this] { Free(); });
  }
  ~PlanReader() {
    if (calls_ != nullptr) calls_->Close();
  }
  PlanReader(const PlanReader&) = delete;
  PlanReader& operator=(const PlanReader&) = delete;

  nb::object Next() {
    calls_->RequireOpen();
    if (at_.epoch != epoch_) return nb::none();
    const nb::object batch = BatchAt(at_);
    at_ = steps_->Next(at_);
    return batch;
  }
  bool NextEpoch() {
    calls_->RequireOpen();
    if (at_.epoch == epoch_) {
      Raise(FailedPrecondition(fmt::format("batches of epoch {} are left", epoch_)));
    }
    epoch_ = at_.epoch;
    return true;
  }
  /// The batch of a step of any epoch.
  nb::object At(nb::handle wanted_epoch, nb::handle wanted_step) {
    calls_->RequireOpen();
    const auto epoch = ReadOption<std::uint64_t>("epoch", wanted_epoch);
    const auto step = ReadOption<std::uint64_t>("step", wanted_step);
    const std::uint64_t steps = steps_->StepsFrom(0);
    if (step >= steps) {
      Raise(OutOfRange(fmt::format("step {}: an epoch has the steps 0 to {}", step, steps - 1)));
    }
    return BatchAt({epoch, step * steps_->stride()});
  }

  /// The batch of examples given by id, in that order.
  nb::object OfExamples(const std::vector<std::uint64_t>& ids) {
    std::vector<ExampleId> examples;
    for (const std::uint64_t id : ids) examples.push_back(Checked(id));
    return Built([&] { return plan_->BatchOf(examples, *scratch_); }, {});
  }
  std::uint64_t Examples() const { return plan().source()->examples(); }
  /// Label of an example's part of the split.
  std::uint32_t SplitLabel(std::uint64_t id) const { return plan().SplitLabel(Checked(id)); }
  /// Whether an epoch has the example: its split is taken and no filter leaves it out.
  bool Selects(std::uint64_t id) const { return plan().PlaceOf(0, Checked(id)) != Plan::kNoPlace; }

  nb::dict Spec() { return SpecDict(spec_); }
  std::uint64_t epoch() const {
    calls_->RequireOpen();
    return epoch_;
  }
  nb::tuple position() const {
    calls_->RequireOpen();
    return nb::make_tuple(at_.epoch, at_.example);
  }
  std::string cursor() const {
    calls_->RequireOpen();
    return Cursor{{{spec_.order_fingerprint, at_}}}.ToString();
  }

  nb::dict Vocabulary() { return VocabularyDict(Tables().vocabulary()); }
  std::vector<std::uint32_t> SpineLabels() { return Tables().SpineLabels(); }
  std::vector<std::uint32_t> Context(nb::handle number) {
    return ValueOrRaise(Tables().Context(ReadOption<std::uint64_t>("context", number)));
  }

  /// What an example is: file, definition, step of the proof, outcome.
  nb::dict Describe(std::uint64_t example) {
    const ExampleDescription from = plan().source()->Describe(Checked(example));
    nb::dict dict;
    dict["example"] = example;
    dict["file"] = from.file;
    dict["definition"] = from.definition;
    dict["members"] = nb::cast(from.members);
    dict["step_of_proof"] = nb::cast(from.step);
    dict["outcome"] = nb::cast(from.outcome);
    dict["faithful"] = nb::cast(from.faithful);
    return dict;
  }

  void Close() { calls_->Close(); }
  void Cancel() { calls_->RequireOpen(); }  // nothing blocks here

 private:
  Status Open() {
    PipelineSource source;
    source.yaml = options_.pipeline;
    source.variant = options_.variant;
    source.overrides = options_.overrides;
    MILLRACE_ASSIGN_OR_RETURN(const Pipeline pipeline, Pipeline::Parse(source));
    PlanLibraryOptions library;
    for (const auto& [id, dir] : options_.datasets) {
      library.datasets[id.empty() ? pipeline.dataset() : id].dir = dir;
    }
    if (const auto own = library.datasets.find(pipeline.dataset()); own != library.datasets.end()) {
      own->second.index_file = options_.index_file;
    }
    library_ = std::make_unique<PlanLibrary>(
        std::move(library), MakeStderrLogger("millrace", LogLevel::kWarning, false));
    MILLRACE_ASSIGN_OR_RETURN(plan_, library_->Compile(pipeline));
    MILLRACE_ASSIGN_OR_RETURN(steps_, plan_->Steps(options_.world_size));
    if (options_.micro == 0) {
      return InvalidArgument("micro: expected at least 1 part a batch, got 0");
    }
    if (options_.rank >= options_.world_size) {
      return InvalidArgument(
          fmt::format("rank {}: expected 0 to {}", options_.rank, options_.world_size - 1));
    }
    scratch_ = plan_->NewScratch();
    Position wanted;
    if (!options_.cursor.empty()) {
      MILLRACE_ASSIGN_OR_RETURN(const Cursor cursor, Cursor::Parse(options_.cursor));
      if (cursor.entries.size() != 1 || cursor.entries[0].order != plan_->order_fingerprint()) {
        return FailedPrecondition(
            fmt::format("the cursor {} is of another order than the pipeline's, {}",
                        options_.cursor, plan_->order_fingerprint().ToString()));
      }
      wanted = cursor.entries[0].position;
    }
    MILLRACE_ASSIGN_OR_RETURN(at_, steps_->Start(wanted));
    epoch_ = at_.epoch;
    client::Admission admission;
    admission.fingerprint = plan_->fingerprint();
    admission.start = at_;
    MILLRACE_ASSIGN_OR_RETURN(admission.spec, plan_->Spec(options_.world_size));
    MILLRACE_ASSIGN_OR_RETURN(spec_, client::SpecFromProto(admission, options_.index_dtype));
    return OkStatus();
  }

  /// Without the GIL, when nobody is inside.
  void Free() {
    tables_ = nullptr;
    scratch_ = nullptr;
    plan_ = nullptr;
    library_ = nullptr;
  }

  const Plan& plan() const {
    calls_->RequireOpen();
    return *plan_;
  }

  ExampleId Checked(std::uint64_t id) const {
    const std::uint64_t examples = plan().source()->examples();
    if (id >= examples) {
      Raise(OutOfRange(fmt::format("example {}: there are {}", id, examples)));
    }
    return ExampleId(id);
  }

  nb::object BatchAt(Position at) {
    return Built(
        [&] { return plan_->Batch(at.epoch, steps_->RankExamples(at, options_.rank), *scratch_); },
        {at, steps_->Step(at), steps_->Ordinal(at, options_.rank), options_.rank});
  }

  /// The batch that `build` makes, one at a time: there is one scratch.
  template <class Build>
  nb::object Built(Build build, const BatchPlace& place) {
    Result<std::shared_ptr<const PackedBatch>> packed = calls_->Run([&] {
      const std::lock_guard lock(scratch_mutex_);
      return build();
    });
    return ValueOrRaise(Deliver(ValueOrRaise(std::move(packed)), options_.index_dtype,
                                options_.micro, pool_, place));
  }

  const client::StaticTables& Tables() {
    calls_->RequireOpen();
    if (tables_ == nullptr) {
      tables_ =
          ValueOrRaise(client::StaticTables::Parse(*plan_->static_bytes(), spec_.base_node_labels));
    }
    return *tables_;
  }

  const PlanOptions options_;
  std::shared_ptr<Calls> calls_;
  std::unique_ptr<PlanLibrary> library_;
  std::shared_ptr<const Plan> plan_;
  std::optional<StepArithmetic> steps_;
  std::mutex scratch_mutex_;  // locked without the GIL only
  std::unique_ptr<BatchScratch> scratch_;
  std::shared_ptr<const client::StaticTables> tables_;
  BatchSpec spec_;
  BufferPool pool_;
  Position at_;  // of the next step
  std::uint64_t epoch_ = 0;
};

nb::object LoadBatch(nb::handle path, nb::handle index_dtype) {
  BufferPool pool;
  const std::string file = ReadPath(path);
  const DType dtype = ReadIndexDType(index_dtype);
  const std::shared_ptr<const PackedBatch> batch =
      ValueOrRaise(WithoutGil([&] { return ReadBatchFile(file, pool); }));
  // A saved batch knows its place in the epoch's order, and nothing of a run.
  const BatchPlace place{{batch->info().epoch, batch->info().first_example}, 0, 0, 0};
  return ValueOrRaise(Deliver(batch, dtype, 1, pool, place));
}

}  // namespace

void BindPlanReader(nb::module_& module) {
  nb::class_<PlanReader>(module, "PlanReader")
      .def(
          "__init__",
          [](PlanReader* self, const nb::dict& options) {
            new (self) PlanReader(ReadOptions(nb::dict(options)));
          },
          nb::arg("options"))
      .def("close", &PlanReader::Close)
      .def("cancel", &PlanReader::Cancel)
      .def("next", &PlanReader::Next)
      .def("next_epoch", &PlanReader::NextEpoch)
      .def("at", &PlanReader::At, nb::arg("epoch").none(), nb::arg("step").none())
      .def("of_examples", &PlanReader::OfExamples, nb::arg("examples"))
      .def("examples", &PlanReader::Examples)
      .def("split_label", &PlanReader::SplitLabel, nb::arg("example"))
      .def("selects", &PlanReader::Selects, nb::arg("example"))
      .def("spec", &PlanReader::Spec)
      .def("epoch", &PlanReader::epoch)
      .def("position", &PlanReader::position)
      .def("cursor", &PlanReader::cursor)
      .def("vocabulary", &PlanReader::Vocabulary)
      .def("context", &PlanReader::Context, nb::arg("number").none())
      .def("spine_labels", &PlanReader::SpineLabels)
      .def("describe", &PlanReader::Describe, nb::arg("example"));
  module.def("load_batch", &LoadBatch, nb::arg("path"), nb::arg("index_dtype").none() = "int32",
             nb::sig("def load_batch(path: str | os.PathLike[str], index_dtype: str = 'int32') -> "
                     "Batch"),
             "A batch that was saved with `Batch.save` or `millrace batch --out`.");
}

}  // namespace millrace::python
