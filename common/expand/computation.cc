#include "common/expand/computation.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/batch/layout/integer_visit.h"
#include "common/expand/value_errors.h"
#include "common/operations/pack_names.h"

namespace millrace::internal {
namespace {

/// Values of an operand begin at a multiple of this.
constexpr std::size_t kOperandAlignment = 8;

void CopyValues(std::span<const std::byte> from, std::byte* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

/// Padding after the splits repeats the last of them.
template <class T>
void WriteSplits(std::span<const std::int64_t> splits, std::span<std::byte> out) {
  auto* const values = reinterpret_cast<T*>(out.data());
  for (std::size_t i = 0; i < splits.size(); ++i) values[i] = static_cast<T>(splits[i]);
  std::fill(values + splits.size(), values + out.size() / sizeof(T), static_cast<T>(splits.back()));
}

/// Fills rows of padding with zeros or, in a tensor that is padded itself, as its rows are filled
/// up.
void FillRows(const std::optional<Pad>& pad, std::span<std::byte> out) {
  if (out.empty()) return;
  if (pad) return pad->Fill(out);
  std::memset(out.data(), 0, out.size());
}

}  // namespace

/// Makes a computation: sorts the outputs of a graph into expanded and computed ones.
class ComputationMaker {
 public:
  ComputationMaker(std::vector<TensorSpec> tensors, DType index_dtype)
      : made_(new Computation()), index_dtype_(index_dtype) {
    made_->tensors_ = std::move(tensors);
    made_->index_dtype_ = index_dtype;
    operands_ = OperandsOf(made_->tensors_);
  }

  Result<std::shared_ptr<const Computation>> Make(ConsumerProgram program) {
    TensorGraphText& text = program.text;
    text.index_dtype = index_dtype_;
    text.sources.clear();
    for (const Operand& operand : operands_) text.sources.push_back(operand.source);
    MILLRACE_ASSIGN_OR_RETURN(TensorGraph graph, TensorGraph::Bind(text));
    made_->graph_ = std::make_shared<const TensorGraph>(std::move(graph));
    SortOutputs();
    if (program.graph_pad) MILLRACE_RETURN_IF_ERROR(PadGraphs(*program.graph_pad));
    for (const TensorOutput* const output : computed_) AddOutput(*output);
    made_->expanded_ = WithCompanions(made_->tensors_, std::move(chosen_));
    MILLRACE_RETURN_IF_ERROR(CheckNames());
    const std::size_t travelling = made_->tensors_.size();
    made_->order_ = DeliveredOrder(
        {.travelling = made_->tensors_,
         .expanded = made_->expanded_,
         .source_tensors = std::min(program.source_tensors.value_or(travelling), travelling),
         .computed = made_->computed_,
         .masks = made_->masks()});
    Compile();
    return std::shared_ptr<const Computation>(std::move(made_));
  }

  std::shared_ptr<const Computation> MakeSubset(const Computation& whole, bool on_device) {
    made_->graph_ = whole.graph_;
    made_->padding_ = whole.padding_;
    std::vector<std::size_t> sources;
    for (std::size_t i = 0; i < nodes().size(); ++i) {
      if (nodes()[i].operation == nullptr) sources.push_back(i);
    }
    const std::vector<bool> by_device = MadeByDevices(*made_->graph_, sources);
    SortOutputs();
    std::erase_if(computed_,
                  [&](const TensorOutput* output) { return by_device[output->node] != on_device; });
    for (const TensorOutput* const output : computed_) AddOutput(*output);
    Compile();
    return std::move(made_);
  }

 private:
  const std::vector<TensorNode>& nodes() const { return made_->graph_->nodes(); }

  /// The operand that a node of the source is.
  const Operand& OperandOf(std::size_t node) const {
    return *std::find_if(operands_.begin(), operands_.end(), [&](const Operand& operand) {
      return operand.source.name == nodes()[node].name;
    });
  }

  void SortOutputs() {
    chosen_.assign(made_->tensors_.size(), false);
    for (const TensorOutput& output : made_->graph_->outputs()) {
      if (nodes()[output.node].operation == nullptr && !output.pad) {
        chosen_[OperandOf(output.node).tensor] = true;
      } else {
        computed_.push_back(&output);
      }
    }
    std::sort(computed_.begin(), computed_.end(),
              [](const auto* a, const auto* b) { return a->name < b->name; });
  }

  Status PadGraphs(const GraphPad& pad) {
    MILLRACE_ASSIGN_OR_RETURN(made_->padding_, GraphPadding::Make(made_->tensors_, pad));
    chosen_[made_->padding_->graph().splits] = true;  // brings the edges, and what cuts nodes
    return OkStatus();
  }

  /// A tensor of the source whose rows are those of `node`.
  const TensorSpec& Origin(std::size_t node) const {
    while (nodes()[node].operation != nullptr) {
      const std::vector<std::size_t>& inputs = nodes()[node].inputs;
      const auto same = std::find_if(inputs.begin(), inputs.end(), [&](std::size_t input) {
        return nodes()[input].type.rows == nodes()[node].type.rows;
      });
      node = same == inputs.end() ? inputs.front() : *same;
    }
    return made_->tensors_[OperandOf(node).tensor];
  }

  void AddOutput(const TensorOutput& output) {
    const TensorType& type = nodes()[output.node].type;
    TensorSpec spec;
    spec.path = output.name;
    spec.dtype = type.dtype;
    spec.dimension = type.rows;
    spec.expansion = Expansion::kKeep;
    if (IsInteger(type.dtype)) {
      spec.min = DTypeMin(type.dtype);
      spec.max = DTypeMax(type.dtype);
    }
    spec.inner.assign(type.inner.begin(), type.inner.end());
    Computation::Output place{made_->computed_.size(), std::nullopt, output.pad};
    if (output.pad) {
      spec.inner.insert(spec.inner.begin(), output.pad->fixed_extent().value_or(0));
    } else if (type.ragged) {
      spec.kind = TensorKind::kRaggedValues;
      spec.dimension = output.name;
      spec.splits = output.name + "_splits";
      place.splits = place.values + 1;
    } else if (type.rows == kPackSeqlensRows) {
      spec.kind = TensorKind::kSplits;  // no row of it is one of the batch
    } else if (const TensorSpec& origin = Origin(output.node);
               !origin.splits.empty() && origin.dimension == type.rows) {
      spec.kind = TensorKind::kRaggedValues;  // as nodes and edges of the source have
      spec.splits = origin.splits;
      chosen_[*FindTensor(made_->tensors_, origin.splits)] = true;
    }
    made_->outputs_.push_back(place);
    made_->computed_.push_back(spec);
    if (!place.splits) return;
    TensorSpec splits;
    splits.path = spec.splits;
    splits.kind = TensorKind::kSplits;
    splits.dtype = index_dtype_;
    splits.max = DTypeMax(index_dtype_);
    splits.dimension = "batch+1";
    splits.expansion = Expansion::kKeep;
    made_->computed_.push_back(std::move(splits));
  }

  Status CheckNames() const {
    std::set<std::string> names;
    for (std::size_t i = 0; i < made_->tensors_.size(); ++i) {
      if (made_->expanded_[i]) names.insert(made_->tensors_[i].path);
    }
    for (const std::span<const TensorSpec> made :
         {std::span<const TensorSpec>(made_->computed_), made_->masks()}) {
      for (const TensorSpec& tensor : made) {
        if (names.insert(tensor.path).second) continue;
        return InvalidArgument(fmt::format(
            "{}: two tensors of a batch would have this name; give another name to the one that "
            "the pipeline defines (a ragged tensor NAME also has NAME_splits)",
            tensor.path));
      }
    }
    return OkStatus();
  }

  void Compile() {
    std::vector<bool> needed(nodes().size(), false);
    std::vector<ProgramOutput> outputs;
    for (const TensorOutput* const output : computed_) {
      needed[output->node] = true;
      outputs.push_back({output->node, output->pad});
    }
    std::vector<std::size_t> inputs;
    for (std::size_t i = needed.size(); i-- > 0;) {
      if (!needed[i]) continue;
      if (nodes()[i].operation == nullptr) inputs.push_back(i);
      for (const std::size_t input : nodes()[i].inputs) needed[input] = true;
    }
    for (const std::size_t input : inputs) {
      made_->operands_.push_back(OperandOf(input));
      made_->narrowed_.push_back(
          std::any_of(computed_.begin(), computed_.end(),
                      [&](const TensorOutput* output) { return Narrows(*output, input); }));
    }
    made_->program_ = Program::Compile(*made_->graph_, inputs, outputs);
  }

  /// Whether an output has the values of tensor `input` of the source as numbers of the session's
  /// type, and some may not fit.
  bool Narrows(const TensorOutput& output, std::size_t input) const {
    const TensorNode& node = nodes()[output.node];
    const bool keeps_values =
        node.implicit || (node.operation != nullptr && node.operation->of_rows);
    const auto& inputs = node.inputs;
    return keeps_values && std::find(inputs.begin(), inputs.end(), input) != inputs.end() &&
           node.type.dtype == index_dtype_ &&
           DTypeMax(nodes()[input].type.dtype) > DTypeMax(index_dtype_);
  }

  std::unique_ptr<Computation> made_;
  const DType index_dtype_;
  std::vector<Operand> operands_;
  std::vector<bool> chosen_;  // of the tensors that travel
  std::vector<const TensorOutput*> computed_;
};

Result<std::shared_ptr<const Computation>> Computation::Make(std::vector<TensorSpec> tensors,
                                                             ConsumerProgram program,
                                                             DType index_dtype) {
  return ComputationMaker(std::move(tensors), index_dtype).Make(std::move(program));
}

std::shared_ptr<const Computation> Computation::Subset(bool on_device) const {
  return ComputationMaker(tensors_, index_dtype_).MakeSubset(*this, on_device);
}

Status Computation::CheckTensors(const PackedBatch& packed) const {
  const auto same = [](const TensorPlace& place, const TensorSpec& spec) {
    return place.spec == spec;
  };
  if (std::equal(packed.tensors().begin(), packed.tensors().end(), tensors_.begin(), tensors_.end(),
                 same)) {
    return OkStatus();
  }
  return DataLoss(fmt::format(
      "a batch has {} tensors that are not the {} of its plan: worker and dispatcher disagree",
      packed.tensors().size(), tensors_.size()));
}

std::shared_ptr<BatchComputation> Computation::Begin() const {
  std::unique_ptr<BatchComputation> batch;
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      batch = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (batch == nullptr) batch = std::make_unique<BatchComputation>(*this);
  return {batch.release(), [computation = shared_from_this()](BatchComputation* done) {
            MutexLock lock(computation->mutex_);
            computation->idle_.emplace_back(done);
          }};
}

BatchComputation::BatchComputation(const Computation& computation)
    : computation_(computation),
      views_(computation.tensors_, computation.operands_),
      aligned_(computation.operands_.size()) {}

void BatchComputation::AlignInputs() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    std::span<const std::byte>& values = inputs_[i].values;
    if (reinterpret_cast<std::uintptr_t>(values.data()) % kOperandAlignment == 0) continue;
    aligned_[i].resize(values.size() / sizeof(std::uint64_t) + 1);
    const std::span<std::byte> copy =
        std::as_writable_bytes(std::span(aligned_[i])).first(values.size());
    CopyValues(values, copy.data());
    values = copy;
  }
}

Status BatchComputation::CheckInputs() const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const std::string& name = computation_.operands_[i].source.name;
    const DType dtype = inputs_[i].type->dtype;
    if (dtype == DType::kBool) MILLRACE_RETURN_IF_ERROR(CheckBools(name, inputs_[i].values));
    if (!computation_.narrowed_[i]) continue;
    const std::uint64_t values = inputs_[i].values.size() / DTypeSize(dtype);
    const DType index_dtype = computation_.index_dtype_;
    for (std::uint64_t element = 0; element < values; ++element) {
      const std::int64_t value = LoadValue(inputs_[i].values.data(), dtype, element);
      const bool wrapped = value < 0 && dtype == DType::kUint64;
      const bool fits = index_dtype == DType::kInt64 || value == static_cast<std::int32_t>(value);
      if (fits && !wrapped) continue;
      const std::string text =
          wrapped ? fmt::to_string(static_cast<std::uint64_t>(value)) : fmt::to_string(value);
      return ValueDoesNotFit(name, fmt::format("value {} at element {}", text, element),
                             index_dtype);
    }
  }
  return OkStatus();
}

std::uint64_t BatchComputation::RowsOf(std::size_t tensor, std::uint64_t own) const {
  if (!computation_.padding_) return own;
  return computation_.padding_->RowsOf(computation_.computed_[tensor]).value_or(own);
}

Status BatchComputation::LayOut(const PackedBatch& packed, RowRange rows,
                                std::vector<ComputedPlace>& places) {
  const std::span<const TensorView> views = views_.Of(packed, rows.first, rows.count);
  inputs_.assign(views.begin(), views.end());
  const auto shapes = computation_.program_->Shapes(inputs_, packed.info().bound, memory_);
  if (!shapes.ok()) return ErrorOfBatch(packed.info(), shapes.status());
  places.resize(computation_.computed_.size());
  for (std::size_t i = 0; i < shapes->size(); ++i) {
    const TensorView& view = (*shapes)[i];
    const Computation::Output& output = computation_.outputs_[i];
    ComputedPlace& values = places[output.values];
    values.dtype = view.type->dtype;
    values.shape.assign(1, RowsOf(output.values, view.units()));
    MILLRACE_RETURN_IF_ERROR(CheckPaddedBytes(computation_.computed_[output.values].path,
                                              values.shape[0], view.type->UnitBytes()));
    values.shape.insert(values.shape.end(), view.type->inner.begin(), view.type->inner.end());
    if (!output.splits) continue;
    ComputedPlace& splits = places[*output.splits];
    splits.dtype = computation_.computed_[*output.splits].dtype;
    splits.shape.assign(1, RowsOf(*output.splits, view.splits.size()));
    if (view.units() > DTypeMax(splits.dtype)) {
      return ValueDoesNotFit(computation_.computed_[output.values].path,
                             fmt::format("number of rows {}", view.units()), splits.dtype);
    }
  }
  return OkStatus();
}

Status BatchComputation::Run(const PackedBatch& packed,
                             const std::function<std::span<std::byte>(std::size_t tensor)>& room,
                             ProgramObserver* observer) {
  MILLRACE_RETURN_IF_ERROR(CheckInputs());
  AlignInputs();
  ProgramRun run;
  run.read_soon = false;  // a training step comes first
  run.observer = observer;
  run.bound = packed.info().bound;
  run.room = [&](std::size_t number, const TensorView& view) -> Result<std::span<std::byte>> {
    const Computation::Output& output = computation_.outputs_[number];
    if (output.splits) {
      const bool narrow = computation_.computed_[*output.splits].dtype == DType::kInt32;
      const std::span<std::byte> splits = room(*output.splits);
      narrow ? WriteSplits<std::int32_t>(view.splits, splits)
             : WriteSplits<std::int64_t>(view.splits, splits);
    }
    const std::span<std::byte> values = room(output.values);
    const std::size_t own = view.units() * view.type->UnitBytes();
    FillRows(output.pad, values.subspan(own));
    return values.first(own);
  };
  if (const Status status = computation_.program_->Run(inputs_, run, memory_); !status.ok()) {
    return ErrorOfBatch(packed.info(), status);
  }
  return OkStatus();
}

}  // namespace millrace::internal
