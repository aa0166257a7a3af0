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
constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 38;

Status CheckBytes(const TensorView& view) {
  const std::uint64_t units = view.units();
  const std::uint64_t unit = view.type->UnitBytes();
  if (unit == 0 || units <= kMaxTensorBytes / unit) return OkStatus();
  return ResourceExhausted(fmt::format("{} with {} units of {} bytes is larger than {} GiB",
                                       DescribeTensorType(*view.type), units, unit,
                                       kMaxTensorBytes >> 30));
}

}  // namespace

std::size_t Program::loops() const {
  return static_cast<std::size_t>(std::count_if(
      steps_.begin(), steps_.end(), [](const Step& step) { return step.loop.has_value(); }));
}

std::size_t Program::kernels() const {
  return static_cast<std::size_t>(std::count_if(
      steps_.begin(), steps_.end(), [](const Step& step) { return step.kernel != nullptr; }));
}

std::size_t Program::AddPart(std::string name) {
  if (parts_.size() < kMaxParts) {
    parts_.push_back(std::move(name));
  } else {
    parts_.back() = "others";
  }
  return parts_.size() - 1;
}

Status Program::Begin(std::span<const TensorView> inputs, ProgramMemory& memory) const {
  if (inputs.size() != inputs_) return Internal("a program was given other inputs than it has");
  memory.tensors.resize(slots_.size() + outputs_);
  memory.views.assign(slots_.size(), TensorView());
  for (std::size_t i = 0; i < inputs_; ++i) {
    memory.views[i] = inputs[i];
    memory.views[i].type = &slots_[i].type;
    if (*inputs[i].type != slots_[i].type) {
      return Internal(fmt::format("{}: expected {}, got {}", slots_[i].name,
                                  DescribeTensorType(slots_[i].type),
                                  DescribeTensorType(*inputs[i].type)));
    }
  }
  return OkStatus();
}

Status Program::Run(std::span<const TensorView> inputs, const ProgramRun& run,
                    ProgramMemory& memory) const {
  MILLRACE_RETURN_IF_ERROR(Begin(inputs, memory));
  for (std::size_t i = 0; i < inputs_; ++i) {
    if (Status status = CheckSize(inputs[i].values, inputs[i]); !status.ok()) {
      return status.WithContext(slots_[i].name);
    }
  }
  for (const Step& step : steps_) {
    const bool works = step.loop || step.kernel != nullptr;
    if (works && run.observer != nullptr) run.observer->OnPart(step.part);
    Status status = ShapeStep(step, memory);
    if (status.ok()) status = RunStep(step, run, memory);
    if (!status.ok()) return status.WithContext(slots_[step.to].name);
  }
  for (const Delivery& delivery : deliveries_) {
    if (run.observer != nullptr) run.observer->OnPart(delivery.part);
    if (Status status = Deliver(delivery, run, memory); !status.ok()) {
      return status.WithContext(slots_[delivery.from].name);
    }
  }
  if (run.observer != nullptr) run.observer->OnEnd();
  return OkStatus();
}

Result<std::span<const TensorView>> Program::Shapes(std::span<const TensorView> inputs,
                                                    std::optional<std::uint32_t> bound,
                                                    ProgramMemory& memory) const {
  MILLRACE_RETURN_IF_ERROR(Begin(inputs, memory));
  memory.outputs.assign(outputs_, TensorView());
  for (const Step& step : steps_) {
    if (Status status = ShapeStep(step, memory); !status.ok()) {
      return status.WithContext(slots_[step.to].name);
    }
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].output) memory.outputs[*slots_[i].output] = memory.views[i];
  }
  for (const Delivery& delivery : deliveries_) {
    std::uint32_t extent = 0;
    const Result<TensorView> view = ShapeDelivery(delivery, bound, memory, extent);
    if (!view.ok()) return view.status().WithContext(slots_[delivery.from].name);
    memory.outputs[delivery.output] = *view;
  }
  return std::span<const TensorView>(memory.outputs);
}

Status Program::ShapeStep(const Step& step, ProgramMemory& memory) const {
  const Slot& slot = slots_[step.to];
  ProgramMemory::Tensor& tensor = memory.tensors[step.to];
  std::vector<TensorView>& inputs = memory.inputs;
  inputs.clear();
  for (const std::size_t from : step.from) {
    inputs.push_back(memory.views[from]);
    if (inputs.back().rows != inputs.front().rows) {
      return InvalidArgument(fmt::format("{} has {} rows, and {} has {}",
                                         slots_[step.from.front()].name, inputs.front().rows,
                                         slots_[from].name, inputs.back().rows));
    }
  }
  TensorView view = inputs.front();
  view.type = &slot.type;
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
  if (step.loop || step.kernel != nullptr) view.values = {};
  memory.views[step.to] = view;
  return CheckBytes(view);
}

Status Program::RunStep(const Step& step, const ProgramRun& run, ProgramMemory& memory) const {
  if (!step.loop && step.kernel == nullptr) return OkStatus();
  const Slot& slot = slots_[step.to];
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
    step.loop->Run(inputs.front().values.data(), inputs.front().units(), out.data(),
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

Result<TensorView> Program::ShapeDelivery(const Delivery& delivery,
                                          std::optional<std::uint32_t> bound, ProgramMemory& memory,
                                          std::uint32_t& extent) const {
  TensorView view = memory.views[delivery.from];
  view.values = {};
  if (!delivery.pad) return view;
  MILLRACE_ASSIGN_OR_RETURN(extent, delivery.pad->Extent(view, bound));
  TensorType& type = memory.tensors[slots_.size() + delivery.output].type;
  Pad::SetPadded(*view.type, extent, type);
  view = {&type, view.rows, {}, {}};
  MILLRACE_RETURN_IF_ERROR(CheckBytes(view));
  return view;
}

Status Program::Deliver(const Delivery& delivery, const ProgramRun& run,
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
