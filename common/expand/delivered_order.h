// The order of a delivered batch's tensors: the source's tensors in its order, and then computed
// ones by the bytes of their names, whether a worker or the consumer computed them. Masks of padded
// graphs are among these.
//
// Pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/batch/layout/layout.h"

namespace millrace::internal {

/// A tensor of a delivered batch.
struct DeliveredPlace {
  enum class Kind : std::uint8_t { kExpanded, kComputed, kMask };
  Kind kind = Kind::kExpanded;
  std::size_t number = 0;  // among the tensors that travel, the computed ones, or the masks
  friend bool operator==(const DeliveredPlace&, const DeliveredPlace&) = default;
};

/// The delivered tensors.
struct DeliveredTensors {
  std::span<const TensorSpec> travelling;
  const std::vector<bool>& expanded;     // whether each of these is delivered as it travels
  std::size_t source_tensors = 0;        // this many of these come first and are the source's
  std::span<const TensorSpec> computed;  // by the consumer
  std::span<const TensorSpec> masks = {};
};

/// Splits follow the tensor that they cut. A computed tensor with the name of a source's tensor is
/// its padded form, and has its place. REQUIRES: no two delivered tensors have one name.
std::vector<DeliveredPlace> DeliveredOrder(const DeliveredTensors& tensors);

}  // namespace millrace::internal
