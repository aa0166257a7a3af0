// The checks of I12: a worker builds no batch that it is building or has in memory.

#include <algorithm>

#include <fmt/core.h>

#include "tests/sim/world.h"

namespace millrace::sim {

void World::CheckBuiltOnce(WorkerNode& node, const BuildQueue::Task& task) {
  const BatchName name{task.plan, task.at.epoch, task.range};
  const bool under_way = std::any_of(node.builds.begin(), node.builds.end(),
                                     [&](const auto& build) { return build.second == name; });
  const auto built = node.built.find(name);
  const bool in_memory = built != node.built.end() && !built->second.expired();
  if (under_way || in_memory) {
    Fail(fmt::format("I12: a worker builds the batch at {} again, which it {}", task.at.ToString(),
                     under_way ? "is building" : "has in memory"));
  }
  node.builds[task.build] = name;
}

/// Forgets the batches that may be built again: those of plans that the worker has failed, or from
/// which nobody streams.
void World::ForgetUnsharable(WorkerNode& node) {
  const auto has_stream = [&](const std::string& plan) {
    return std::any_of(node.streams.begin(), node.streams.end(), [&](const auto& stream) {
      return stream.second.wants.fingerprint() == plan;
    });
  };
  std::erase_if(node.builds, [&](const auto& build) {
    return node.machine->FindReady(std::get<0>(build.second)) == nullptr;
  });
  std::erase_if(node.built, [&](const auto& built) {
    const std::string& plan = std::get<0>(built.first);
    return built.second.expired() || !has_stream(plan) || node.machine->FindReady(plan) == nullptr;
  });
}

}  // namespace millrace::sim
