#include "common/expand/device_computation.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

std::uint64_t PaddedBytes(const ComputedPlace& place) {
  return (place.bytes() + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

}  // namespace

DeviceComputation::Subset DeviceComputation::SubsetOf(const internal::Computation& all,
                                                      bool on_device) {
  Subset subset{all.Subset(on_device), {}};
  for (const TensorSpec& tensor : subset.computation->computed()) {
    const auto same = std::find_if(all.computed().begin(), all.computed().end(),
                                   [&](const TensorSpec& one) { return one.path == tensor.path; });
    subset.numbers.push_back(static_cast<std::size_t>(same - all.computed().begin()));
  }
  return subset;
}

DeviceComputation::DeviceComputation(const internal::Computation& all)
    : device_(SubsetOf(all, true)),
      host_(SubsetOf(all, false)),
      steps_(MakeComputeSteps(device_.computation->program().plan())) {}

std::vector<std::string> DeviceComputation::host_outputs() const {
  std::vector<std::string> names;
  for (const internal::Computation::Output& output : host_.computation->outputs()) {
    names.push_back(host_.computation->computed()[output.values].path);
  }
  return names;
}

Result<ComputeProgram> DeviceComputation::ProgramFor(const PackedBatch& packed,
                                                     const ExpandLayout& layout) const {
  const std::shared_ptr<internal::BatchComputation> batch = device_.computation->Begin();
  std::vector<ComputedPlace> places;
  MILLRACE_RETURN_IF_ERROR(batch->LayOut(packed, layout.rows, places));
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i].offset = layout.computed[device_.numbers[i]].offset;
  }
  return MakeComputeProgram({*device_.computation, steps_, packed, batch->memory(), places});
}

std::vector<DeviceComputation::Run> DeviceComputation::HostRuns(const ExpandLayout& layout) const {
  std::vector<Run> runs;
  std::uint64_t from = 0;
  for (const std::size_t number : host_.numbers) {
    const ComputedPlace& place = layout.computed[number];
    const std::uint64_t bytes = PaddedBytes(place);
    if (!runs.empty() && runs.back().to + runs.back().bytes == place.offset) {
      runs.back().bytes += bytes;
    } else if (bytes != 0) {
      runs.push_back({from, place.offset, bytes});
    }
    from += bytes;
  }
  return runs;
}

Status DeviceComputation::ComputeOnHost(const PackedBatch& packed, const ExpandLayout& layout,
                                        std::span<std::byte> out) const {
  const std::shared_ptr<internal::BatchComputation> batch = host_.computation->Begin();
  std::vector<ComputedPlace> places;
  MILLRACE_RETURN_IF_ERROR(batch->LayOut(packed, layout.rows, places));
  std::uint64_t bytes = 0;
  for (ComputedPlace& place : places) {
    place.offset = bytes;
    bytes += PaddedBytes(place);
  }
  const auto room = [&](std::size_t tensor) {
    const ComputedPlace& place = places[tensor];
    std::byte* const begin = out.data() + place.offset;
    std::memset(begin + place.bytes(), 0, PaddedBytes(place) - place.bytes());
    return std::span(begin, place.bytes());
  };
  return batch->Run(packed, room, layout.observer);
}

}  // namespace millrace
