#include "common/expand/compute_program.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "common/expand/compute_kernel.h"
#include "common/operations/pack_pieces.h"

namespace millrace {
namespace {

using kernel::ComputeOp;
using kernel::ComputeTask;
using kernel::Memory;
using kernel::Place;

constexpr std::uint64_t RoundUp(std::uint64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

std::uint64_t BytesOf(const TensorView& view) { return view.units() * view.type->UnitBytes(); }

/// A word of any width that fills up rows.
std::uint64_t FillOf(const Pad& pad) {
  std::uint64_t fill = 0;
  std::memcpy(&fill, pad.fill().data(), sizeof fill);
  return fill;
}

/// Whether a task reads values, and not only tables.
bool ReadsInput(ComputeOp op) {
  return op != ComputeOp::kLength && op != ComputeOp::kSplits && op != ComputeOp::kFill &&
         op != ComputeOp::kPosition && op != ComputeOp::kOfPiece;
}

class ComputeProgramMaker {
 public:
  explicit ComputeProgramMaker(const ComputeInput& input)
      : input_(input),
        plan_(input.computation.program().plan()),
        views_(input.memory.views),
        slots_(plan_.slots.size()) {}

  ComputeProgram Make() {
    AddInputs();
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) AddStep(i);
    for (std::size_t i = 0; i < plan_.deliveries.size(); ++i) AddDelivery(i);
    for (std::size_t i = 0; i < plan_.outputs; ++i) AddOutput(i);
    Finish();
    return std::move(made_);
  }

 private:
  /// Where a tensor lies, and in which level it can be read.
  struct SlotPlace {
    Place place;
    std::size_t level = 0;
  };

  void AddInputs() {
    for (std::size_t i = 0; i < plan_.inputs; ++i) {
      const TensorView& view = views_[i];
      const std::byte* const payload = input_.packed.payload().data();
      slots_[i].place = {static_cast<std::uint64_t>(view.values.data() - payload),
                         Memory::kPayload};
      ComputeTask check;
      check.in = slots_[i].place;
      check.dtype = view.type->dtype;
      if (check.dtype == DType::kBool) {
        check.op = ComputeOp::kCheckBools;
        check.count = view.values.size();
        Add(0, check);
      }
      if (input_.computation.narrowed()[i]) {
        check.op = ComputeOp::kCheckFits;
        check.word = static_cast<std::uint8_t>(DTypeSize(input_.computation.index_dtype()));
        check.count = view.values.size() / DTypeSize(check.dtype);
        Add(0, check);
      }
    }
  }

  void AddStep(std::size_t number) {
    const ProgramPlan::Step& step = plan_.steps[number];
    const std::size_t from = step.from.front();
    SlotPlace& to = slots_[step.to];
    if (!step.computes()) {
      to = slots_[from];
      return;
    }
    const TensorView& in = views_[from];
    const TensorView& out = views_[step.to];
    to = {RoomOf(step.to), slots_[from].level + 1};
    ComputeTask task = input_.steps.steps[number];
    task.in = slots_[from].place;
    task.out = to.place;
    task.rows = in.rows;
    switch (task.op) {
      case ComputeOp::kOneHot:
        task.count = BytesOf(out);
        break;
      case ComputeOp::kLength:
        task.count = in.rows;
        task.splits = TableOf(in.splits);
        break;
      case ComputeOp::kRuns:
        task.count = BytesOf(out) / task.word;
        task.splits = TableOf(out.splits);
        task.begins = BeginsOf(std::get<RunForm>(step.kernel->device_form()), in);
        break;
      case ComputeOp::kPosition:
      case ComputeOp::kOfPiece:
      case ComputeOp::kNext:
      case ComputeOp::kSplits:
        SetPieces(step, out, task);
        break;
      default:
        task.count = in.units() * task.out_unit;  // a loop counts units of its input
    }
    Add(slots_[from].level, task);
  }

  /// Completes the task of a tensor of packed rows.
  void SetPieces(const ProgramPlan::Step& step, const TensorView& out, ComputeTask& task) {
    const PieceForm form = std::get<PieceForm>(step.kernel->device_form());
    const TensorView& lengths = views_[step.from[form.lengths]];
    task.count = BytesOf(out) / task.word;
    if (form.what == PieceForm::What::kEnds) {
      std::vector<std::int64_t> ends;
      // It succeeded when the batch was laid out.
      if (!PaddedEndsOf(lengths, form.padded_to, ends).ok()) task.count = 0;
      task.splits = AddTable(ends);
      return;
    }
    task.splits = EndsOf(lengths);
    task.rows = lengths.units();
    std::vector<std::int64_t> numbers;
    if (form.what == PieceForm::What::kSegment) AppendPieceNumbers(lengths, numbers);
    if (form.what == PieceForm::What::kNext) AppendIntegers(views_[step.from.back()], numbers);
    task.begins = AddTable(numbers);
  }

  /// Tensors that are made of the same pieces share the table.
  Place EndsOf(const TensorView& lengths) {
    if (!ends_ || ends_->first != lengths.values.data()) {
      std::vector<std::int64_t> ends;
      AppendPieceEnds(lengths, ends);
      ends_.emplace(lengths.values.data(), AddTable(ends));
    }
    return ends_->second;
  }

  Place AddTable(const std::vector<std::int64_t>& numbers) {
    const Place place{made_.tables.size() * sizeof(std::int64_t), Memory::kTables};
    made_.tables.insert(made_.tables.end(), numbers.begin(), numbers.end());
    return place;
  }

  void AddDelivery(std::size_t number) {
    const ProgramPlan::Delivery& delivery = plan_.deliveries[number];
    const TensorView& in = views_[delivery.from];
    const TensorView& out = input_.memory.outputs[delivery.output];
    ComputeTask task = input_.steps.deliveries[number];
    task.in = slots_[delivery.from].place;
    task.out = PlaceOfOutput(delivery.output);
    task.count = BytesOf(out) / task.word;
    if (delivery.pad) {
      task.row_unit = out.type->UnitBytes() / task.word;
      task.splits = TableOf(in.splits);
    }
    Add(slots_[delivery.from].level, task);
  }

  /// Rows of padding and splits, which an output has besides its values.
  void AddOutput(std::size_t number) {
    const internal::Computation::Output& output = input_.computation.outputs()[number];
    const TensorView& view = input_.memory.outputs[number];
    // Rows of padding are zero, or filled up as all rows of a padded tensor.
    ComputeTask rows;
    rows.word = static_cast<std::uint8_t>(DTypeSize(view.type->dtype));
    if (output.pad) rows.fill = FillOf(*output.pad);
    AddFill(output.values, BytesOf(view), rows);
    if (!output.splits) return;
    const ComputedPlace& place = input_.places[*output.splits];
    ComputeTask task;
    task.op = ComputeOp::kSplits;
    task.word = static_cast<std::uint8_t>(DTypeSize(place.dtype));
    task.count = view.splits.size();
    task.splits = TableOf(view.splits);
    task.out = {place.offset, Memory::kOut};
    Add(0, task);
    ComputeTask last;
    last.word = task.word;
    last.fill = static_cast<std::uint64_t>(view.splits.back());
    AddFill(*output.splits, view.splits.size() * task.word, last);
  }

  /// Fills a tensor from byte `own` on, as `fill` says, and what comes after it with zeros.
  void AddFill(std::size_t tensor, std::uint64_t own, ComputeTask fill) {
    const ComputedPlace& place = input_.places[tensor];
    fill.op = ComputeOp::kFill;
    fill.count = (place.bytes() - own) / fill.word;
    fill.out = {place.offset + own, Memory::kOut};
    Add(0, fill);
    ComputeTask zeros;
    zeros.op = ComputeOp::kFill;
    zeros.count = RoundUp(place.bytes()) - place.bytes();
    zeros.out = {place.offset + place.bytes(), Memory::kOut};
    Add(0, zeros);
  }

  Place PlaceOfOutput(std::size_t number) const {
    return {input_.places[input_.computation.outputs()[number].values].offset, Memory::kOut};
  }

  Place RoomOf(std::size_t slot) {
    if (plan_.slots[slot].output) return PlaceOfOutput(*plan_.slots[slot].output);
    const Place place{made_.scratch_bytes, Memory::kScratch};
    made_.scratch_bytes += RoundUp(BytesOf(views_[slot]));
    return place;
  }

  /// Tensors that share their splits share the table.
  Place TableOf(std::span<const std::int64_t> splits) {
    const auto known = std::find_if(known_.begin(), known_.end(), [&](const auto& table) {
      return table.first == splits.data();
    });
    if (known != known_.end()) return known->second;
    const Place place{made_.tables.size() * sizeof(std::int64_t), Memory::kTables};
    made_.tables.insert(made_.tables.end(), splits.begin(), splits.end());
    known_.emplace_back(splits.data(), place);
    return place;
  }

  Place BeginsOf(const RunForm& form, const TensorView& in) {
    const Place place{made_.tables.size() * sizeof(std::int64_t), Memory::kTables};
    for (std::uint64_t row = 0; row < in.rows; ++row) {
      const std::int64_t begin = in.splits[row];
      made_.tables.push_back(begin + form.begin(in.splits[row + 1] - begin));
    }
    return place;
  }

  void Add(std::size_t level, const ComputeTask& task) {
    if (task.count == 0) return;
    if (levels_.size() <= level) levels_.resize(level + 1);
    levels_[level].push_back(task);
    if (ReadsInput(task.op) && task.in.memory == Memory::kPayload) made_.reads_payload = true;
  }

  void Finish() {
    for (const std::vector<ComputeTask>& tasks : levels_) {
      if (tasks.empty()) continue;
      ComputeProgram::Level level;
      level.first = static_cast<std::uint32_t>(made_.tasks.size());
      level.count = static_cast<std::uint32_t>(tasks.size());
      for (ComputeTask task : tasks) {
        task.first_tile = level.tiles;
        level.tiles += kernel::TilesOf(task.count);
        made_.tasks.push_back(task);
      }
      made_.levels.push_back(level);
    }
  }

  const ComputeInput& input_;
  const ProgramPlan& plan_;
  const std::vector<TensorView>& views_;
  std::vector<SlotPlace> slots_;
  std::vector<std::vector<ComputeTask>> levels_;
  std::vector<std::pair<const std::int64_t*, Place>> known_;
  std::optional<std::pair<const std::byte*, Place>> ends_;
  ComputeProgram made_;
};

}  // namespace

ComputeProgram MakeComputeProgram(const ComputeInput& input) {
  return ComputeProgramMaker(input).Make();
}

kernel::ComputeLaunch LaunchOf(const ComputeProgram::Level& level, kernel::ComputeLaunch launch) {
  launch.tasks += level.first;
  launch.task_count = level.count;
  launch.tiles = level.tiles;
  return launch;
}

void RunOnHost(const kernel::ComputeLaunch& launch) {
  for (std::uint64_t tile = 0; tile < launch.tiles; ++tile) kernel::RunTile(launch, tile, 0, 1);
}

}  // namespace millrace
