// Computes which examples a step holds, for the simulator's checks. It follows
// docs/internals/protocol.md, "Places", and shares no code with the state machines that it checks.
#pragma once

#include <cstdint>

#include "common/epoch/position.h"

namespace millrace::sim {

struct Places {
  std::uint64_t examples = 0;
  std::uint64_t size = 0;         // examples in a step of one rank; 0: global_size is given
  std::uint64_t global_size = 0;  // examples in a step of all ranks
  bool keep = false;
  std::uint32_t world_size = 1;

  std::uint64_t step() const { return size != 0 ? size * world_size : global_size; }

  bool HasStep(std::uint64_t example) const {
    if (example >= examples) return false;
    return keep || examples - example >= step();
  }
  /// The position at which a session begins that wants to begin at `at`.
  Position Begin(Position at) const { return HasStep(at.example) ? at : Position{at.epoch + 1, 0}; }
  Position After(Position at) const {
    return HasStep(at.example + step()) ? Position{at.epoch, at.example + step()}
                                        : Position{at.epoch + 1, 0};
  }
  ExampleRange Of(Position at, std::uint32_t rank) const {
    const std::uint64_t left = examples - at.example;
    if (left >= step()) {
      const std::uint64_t each = step() / world_size;
      return {at.example + rank * each, static_cast<std::uint32_t>(each)};
    }
    const std::uint64_t from = rank * left / world_size;
    const std::uint64_t to = (rank + 1) * left / world_size;
    return {at.example + from, static_cast<std::uint32_t>(to - from)};
  }
};

}  // namespace millrace::sim
