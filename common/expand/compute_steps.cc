#include "common/expand/compute_steps.h"

#include <cstring>
#include <span>
#include <utility>

#include "common/expand/compute_kernel.h"

namespace millrace {
namespace {

using kernel::ComputeOp;
using kernel::ComputePass;
using kernel::ComputeTask;
using kernel::Memory;
using kernel::Place;

constexpr std::size_t kConstantAlignment = 16;
constexpr std::size_t kWidestWord = 8;

/// The widest word of which `bytes` bytes are a multiple.
std::uint8_t WordOfBytes(std::uint64_t bytes) {
  std::uint8_t word = 1;
  while (word < kWidestWord && bytes % (2 * word) == 0) word *= 2;
  return word;
}

/// Whether values 2 i and 2 i + 1 come from neighbours, the first of which has an even place.
bool MovesPairs(const std::vector<std::uint32_t>& map) {
  if (map.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < map.size(); i += 2) {
    if (map[i] % 2 != 0 || map[i + 1] != map[i] + 1) return false;
  }
  return true;
}

ComputeOp PieceOp(PieceForm::What what) {
  switch (what) {
    case PieceForm::What::kPosition:
      return ComputeOp::kPosition;
    case PieceForm::What::kSegment:
      return ComputeOp::kOfPiece;
    case PieceForm::What::kNext:
      return ComputeOp::kNext;
    case PieceForm::What::kEnds:
      break;
  }
  return ComputeOp::kSplits;
}

class StepsMaker {
 public:
  ComputeSteps Make(const ProgramPlan& plan) {
    for (const ProgramPlan::Step& step : plan.steps) {
      const ProgramPlan::Slot& from = plan.slots[step.from.front()];
      ComputeTask task;
      if (step.loop) {
        task = LoopTask(*step.loop);
      } else if (step.kernel != nullptr) {
        task = KernelTask(step.kernel->device_form(), from.type, plan.slots[step.to].type);
      }
      made_.steps.push_back(task);
    }
    for (const ProgramPlan::Delivery& delivery : plan.deliveries) {
      ComputeTask task = UnitTask(plan.slots[delivery.from].type);
      task.op = delivery.pad ? ComputeOp::kPad : ComputeOp::kMove;
      if (delivery.pad) std::memcpy(&task.fill, delivery.pad->fill().data(), sizeof task.fill);
      made_.deliveries.push_back(task);
    }
    return std::move(made_);
  }

 private:
  Place Add(std::span<const std::byte> bytes) {
    std::vector<std::byte>& all = made_.constants;
    all.resize((all.size() + kConstantAlignment - 1) / kConstantAlignment * kConstantAlignment);
    const Place place{all.size(), Memory::kConstants};
    all.insert(all.end(), bytes.begin(), bytes.end());
    return place;
  }

  /// Moves whole units, in words as wide as they allow.
  static ComputeTask UnitTask(const TensorType& type) {
    ComputeTask task;
    task.dtype = type.dtype;
    task.word = task.in_word = WordOfBytes(type.UnitBytes());
    task.in_unit = task.out_unit = type.UnitBytes() / task.word;
    return task;
  }

  static ComputeTask KernelTask(const DeviceForm& form, const TensorType& input,
                                const TensorType& output) {
    ComputeTask task = UnitTask(input);
    if (const auto* const one_hot = std::get_if<OneHotForm>(&form)) {
      task.op = ComputeOp::kOneHot;
      task.word = 1;
      task.out_unit = one_hot->depth;
    } else if (std::holds_alternative<LengthForm>(form)) {
      task.op = ComputeOp::kLength;
    } else if (const auto* const piece = std::get_if<PieceForm>(&form)) {
      task.op = PieceOp(piece->what);
      task.word = static_cast<std::uint8_t>(DTypeSize(output.dtype));
    } else {
      task.op = ComputeOp::kRuns;
    }
    return task;
  }

  ComputeTask LoopTask(const LoopPlan& plan) {
    ComputeTask task;
    task.dtype = plan.source().dtype;
    task.word = static_cast<std::uint8_t>(DTypeSize(plan.output().dtype));
    task.in_word = static_cast<std::uint8_t>(DTypeSize(plan.source().dtype));
    task.in_unit = plan.bits() ? plan.source().UnitBytes() : plan.source().UnitElements();
    task.out_unit = plan.unit_values();
    task.mapped = !plan.map().empty();
    const std::vector<LoopPass> passes = plan.Passes();
    if (passes.empty() && !plan.bits()) return MoveTask(task, plan.map());
    if (task.mapped) task.map = Add(std::as_bytes(std::span(plan.map())));
    if (passes.empty()) {
      task.op = ComputeOp::kBits;
    } else if (plan.bits()) {
      task.op = ComputeOp::kSelect;
      task.values = AddChoices(passes, task);
    } else {
      task.op = ComputeOp::kConvert;
      task.passes = static_cast<std::uint32_t>(passes.size());
      task.values = AddPasses(passes, task.out_unit);
    }
    return task;
  }

  ComputeTask MoveTask(ComputeTask task, std::vector<std::uint32_t> map) {
    task.op = ComputeOp::kMove;
    while (task.word < kWidestWord && task.in_unit % 2 == 0 && task.mapped && MovesPairs(map)) {
      for (std::size_t i = 0; i < map.size() / 2; ++i) map[i] = map[2 * i] / 2;
      map.resize(map.size() / 2);
      task.in_unit /= 2;
      task.out_unit /= 2;
      task.word *= 2;
    }
    task.in_word = task.word;
    if (task.mapped) task.map = Add(std::as_bytes(std::span(map)));
    return task;
  }

  Place AddPasses(const std::vector<LoopPass>& passes, std::uint64_t unit) {
    std::vector<ComputePass> made;
    for (const LoopPass& pass : passes) {
      ComputePass& added = made.emplace_back();
      added.from = pass.from;
      added.to = pass.to;
      if (pass.scaled == nullptr) continue;
      added.scales = true;
      added.each = pass.scaled->scale.size() > 1 || pass.scaled->offset.size() > 1;
      const std::size_t numbers = added.each ? unit : 1;
      added.scale = Add(RepeatedNumbers(pass.scaled->scale, 1, pass.to, numbers)).offset;
      added.offset = Add(RepeatedNumbers(pass.scaled->offset, 0, pass.to, numbers)).offset;
    }
    return Add(std::as_bytes(std::span(made)));
  }

  /// Values that the passes make of the bit 0 at each place of a unit, and of the bit 1.
  Place AddChoices(const std::vector<LoopPass>& passes, const ComputeTask& task) {
    const std::size_t before = made_.constants.size();
    const Place place = AddPasses(passes, task.out_unit);
    const auto* const constants = reinterpret_cast<const unsigned char*>(made_.constants.data());
    const auto* const made = reinterpret_cast<const ComputePass*>(constants + place.offset);
    std::vector<std::byte> choices(2 * task.out_unit * task.word);
    for (std::uint64_t i = 0; i < 2 * task.out_unit; ++i) {
      const std::uint64_t bits =
          kernel::PassBits(constants, made, static_cast<std::uint32_t>(passes.size()),
                           i % task.out_unit, i / task.out_unit);
      kernel::StoreWord(reinterpret_cast<unsigned char*>(choices.data()), task.word, i, bits);
    }
    made_.constants.resize(before);  // a device does not need the passes
    return Add(choices);
  }

  ComputeSteps made_;
};

}  // namespace

ComputeSteps MakeComputeSteps(const ProgramPlan& plan) { return StepsMaker().Make(plan); }

}  // namespace millrace
