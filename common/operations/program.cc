#include "common/operations/program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

namespace millrace {
namespace {

/// Room in `tensor` for a view's values.
std::span<std::byte> Room(const TensorView& view, ProgramMemory::Tensor& tensor) {
  const std::uint64_t bytes = view.units() * view.type->UnitBytes();
  tensor.values.resize((bytes + 7) / 8);
  return {reinterpret_cast<std::byte*>(tensor.values.data()), bytes};
}

Status CheckSize(std::span<const std::byte> room, const TensorView& view) {
  if (view.type->ragged && view.splits.size() != view.rows + 1) {
    return Internal(fmt::format("{} splits for {} rows", view.splits.size(), view.rows));
  }
  if (room.size() == view.units() * view.type->UnitBytes()) return OkStatus();
  return Internal(fmt::format("{} has {} bytes, and {} units", DescribeTensorType(*view.type),
                              room.size(), view.units()));
}

/// No batch has a larger tensor. Padding to the longest row of foreign data could ask for any size.
constexpr std::uint64_t kMaxResultBytes = std::uint64_t{1} << 38;

Status CheckBytes(const TensorView& view) {
  const std::uint64_t units = view.units();
  const std::uint64_t unit = view.type->UnitBytes();
  if (unit == 0 || units <= kMaxResultBytes / unit) return OkStatus();
  return ResourceExhausted(fmt::format("{} with {} units of {} bytes is larger than {} GiB",
                                       DescribeTensorType(*view.type), units, unit,
                                       kMaxResultBytes >> 30));
}

}  // namespace

Program::Program(ProgramPlan plan) : plan_(std::move(plan)), loops_(plan_.steps.size()) {
  for (std::size_t i = 0; i < loops_.size(); ++i) {
    if (plan_.steps[i].loop) loops_[i].emplace(*plan_.steps[i].loop);
  }
}

Program Program::Compile(const TensorGraph& graph, std::span<const std::size_t> inputs,
                         std::span<const ProgramOutput> outputs) {
  return Program(ProgramPlan::Of(graph, inputs, outputs));
}

std::size_t Program::loops() const {
  return static_cast<std::size_t>(
      std::count_if(plan_.steps.begin(), plan_.steps.end(),
                    [](const ProgramPlan::Step& step) { return step.loop.has_value(); }));
}

std::size_t Program::kernels() const {
  return static_cast<std::size_t>(
      std::count_if(plan_.steps.begin(), plan_.steps.end(),
                    [](const ProgramPlan::Step& step) { return step.kernel != nullptr; }));
}

Status Program::Begin(std::span<const TensorView> inputs, ProgramMemory& memory) const {
  if (inputs.size() != plan_.inputs)
    return Internal("a program was given other inputs than it has");
  memory.tensors.resize(plan_.slots.size() + plan_.outputs);
  memory.views.assign(plan_.slots.size(), TensorView());
  for (std::size_t i = 0; i < plan_.inputs; ++i) {
    memory.views[i] = inputs[i];
    memory.views[i].type = &plan_.slots[i].type;
    if (*inputs[i].type != plan_.slots[i].type) {
      return Internal(fmt::format("{}: expected {}, got {}", plan_.slots[i].name,
                                  DescribeTensorType(plan_.slots[i].type),
                                  DescribeTensorType(*inputs[i].type)));
    }
  }
  return OkStatus();
}

Status Program::Run(std::span<const TensorView> inputs, const ProgramRun& run,
                    ProgramMemory& memory) const {
  MILLRACE_RETURN_IF_ERROR(Begin(inputs, memory));
  for (std::size_t i = 0; i < plan_.inputs; ++i) {
    if (Status status = CheckSize(inputs[i].values, inputs[i]); !status.ok()) {
      return status.WithContext(plan_.slots[i].name);
    }
  }
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const ProgramPlan::Step& step = plan_.steps[i];
    if (step.computes() && run.observer != nullptr) run.observer->OnPhase(step.phase);
    Status status = ShapeStep(step, memory);
    if (status.ok()) status = RunStep(i, run, memory);
    if (!status.ok()) return status.WithContext(plan_.slots[step.to].name);
  }
  for (const ProgramPlan::Delivery& delivery : plan_.deliveries) {
    if (run.observer != nullptr) run.observer->OnPhase(delivery.phase);
    if (Status status = Deliver(delivery, run, memory); !status.ok()) {
      return status.WithContext(plan_.slots[delivery.from].name);
    }
  }
  if (run.observer != nullptr) run.observer->OnEnd();
  return OkStatus();
}

Result<std::span<const TensorView>> Program::Shapes(std::span<const TensorView> inputs,
                                                    std::optional<std::uint32_t> bound,
                                                    ProgramMemory& memory) const {
  MILLRACE_RETURN_IF_ERROR(Begin(inputs, memory));
  memory.outputs.assign(plan_.outputs, TensorView());
  for (const ProgramPlan::Step& step : plan_.steps) {
    if (Status status = ShapeStep(step, memory); !status.ok()) {
      return status.WithContext(plan_.slots[step.to].name);
    }
  }
  for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
    if (plan_.slots[i].output) memory.outputs[*plan_.slots[i].output] = memory.views[i];
  }
  for (const ProgramPlan::Delivery& delivery : plan_.deliveries) {
    std::uint32_t extent = 0;
    const Result<TensorView> view = ShapeDelivery(delivery, bound, memory, extent);
    if (!view.ok()) return view.status().WithContext(plan_.slots[delivery.from].name);
    memory.outputs[delivery.output] = *view;
  }
  return std::span<const TensorView>(memory.outputs);
}

Status Program::ShapeStep(const ProgramPlan::Step& step, ProgramMemory& memory) const {
  const ProgramPlan::Slot& slot = plan_.slots[step.to];
  ProgramMemory::Tensor& tensor = memory.tensors[step.to];
  std::vector<TensorView>& inputs = memory.inputs;
  inputs.clear();
  for (const std::size_t from : step.from) {
    inputs.push_back(memory.views[from]);
    if (inputs.back().rows != inputs.front().rows) {
      return InvalidArgument(fmt::format("{} has {} rows, and {} has {}",
                                         plan_.slots[step.from.front()].name, inputs.front().rows,
                                         plan_.slots[from].name, inputs.back().rows));
    }
  }
  TensorView view = inputs.front();
  view.type = &slot.type;
  if (step.kernel != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(view.rows, step.kernel->Rows(inputs));
  }
  if (!slot.type.ragged) {
    view.splits = {};
  } else if (step.kernel != nullptr) {
    MILLRACE_RETURN_IF_ERROR(step.kernel->Splits(inputs, tensor.splits));
    view.splits = tensor.splits;
  } else if (step.split_factor != 1) {
    tensor.splits.clear();
    for (const std::int64_t split : view.splits) tensor.splits.push_back(split * step.split_factor);
    view.splits = tensor.splits;
  }
  if (step.computes()) view.values = {};
  memory.views[step.to] = view;
  return CheckBytes(view);
}

Status Program::RunStep(std::size_t number, const ProgramRun& run, ProgramMemory& memory) const {
  const ProgramPlan::Step& step = plan_.steps[number];
  if (!step.computes()) return OkStatus();
  const ProgramPlan::Slot& slot = plan_.slots[step.to];
  TensorView& view = memory.views[step.to];
  std::span<std::byte> out;
  if (slot.output) {
    MILLRACE_ASSIGN_OR_RETURN(out, run.room(*slot.output, view));
    MILLRACE_RETURN_IF_ERROR(CheckSize(out, view));
  } else {
    out = Room(view, memory.tensors[step.to]);
  }
  const std::span<const TensorView> inputs = memory.inputs;
  if (step.loop) {
    // The loop counts units of its input.
    loops_[number]->Run(inputs.front().values.data(), inputs.front().units(), out.data(),
                        run.read_soon || !slot.output);
  } else {
    const std::size_t words = (step.kernel->scratch_bytes() + 7) / 8;
    if (memory.scratch.size() < words) memory.scratch.resize(words);
    MILLRACE_RETURN_IF_ERROR(step.kernel->Run(
        inputs, view.splits, std::as_writable_bytes(std::span(memory.scratch)), out));
  }
  view.values = out;
  return OkStatus();
}

Result<TensorView> Program::ShapeDelivery(const ProgramPlan::Delivery& delivery,
                                          std::optional<std::uint32_t> bound, ProgramMemory& memory,
                                          std::uint32_t& extent) const {
  TensorView view = memory.views[delivery.from];
  view.values = {};
  if (!delivery.pad) return view;
  MILLRACE_ASSIGN_OR_RETURN(extent, delivery.pad->Extent(view, bound));
  TensorType& type = memory.tensors[plan_.slots.size() + delivery.output].type;
  Pad::SetPadded(*view.type, extent, type);
  view = {&type, view.rows, {}, {}};
  MILLRACE_RETURN_IF_ERROR(CheckBytes(view));
  return view;
}

Status Program::Deliver(const ProgramPlan::Delivery& delivery, const ProgramRun& run,
                        ProgramMemory& memory) const {
  std::uint32_t extent = 0;
  MILLRACE_ASSIGN_OR_RETURN(const TensorView view,
                            ShapeDelivery(delivery, run.bound, memory, extent));
  MILLRACE_ASSIGN_OR_RETURN(const std::span<std::byte> out, run.room(delivery.output, view));
  MILLRACE_RETURN_IF_ERROR(CheckSize(out, view));
  const TensorView& from = memory.views[delivery.from];
  if (delivery.pad) {
    delivery.pad->Run(from, extent, out.data());
  } else if (!out.empty()) {
    std::memcpy(out.data(), from.values.data(), out.size());
  }
  return OkStatus();
}

}  // namespace millrace
