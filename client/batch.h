// A batch as a training loop gets it.
//
// Cheap to copy; thread-safe. Batches may be dropped on any thread, and may outlive their session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/batch/batch.h"
#include "common/epoch/position.h"

namespace millrace {

class DeliveredBatch;

/// A call that blocks asks this about every 50 ms, on the thread that called and without any lock
/// held. true ends the call with Cancelled, and changes nothing else.
using Interrupt = std::function<bool()>;

/// A delivered batch: views into one aligned buffer. The buffer is used again after the last Batch
/// and the last owner() that point to it are dropped. Cheap to copy.
class Batch {
 public:
  const std::vector<DeliveredTensor>& tensors() const;
  /// The tensor with this path; nullptr if there is none.
  const DeliveredTensor* Find(std::string_view path) const;
  /// The number of examples. Tensors have more rows if graphs are padded (BatchSpec::graph_pad).
  std::size_t examples() const;
  /// Example ids in row order, dropped examples with their reasons, lost pieces, the epoch and the
  /// range.
  const BatchInfo& info() const;

  Position position() const;  // the position of its step
  std::uint64_t epoch() const { return position().epoch; }
  std::uint64_t step() const;     // number within its epoch, the same on all ranks
  std::uint64_t ordinal() const;  // step * world size + rank
  std::uint32_t rank() const;

  /// The number of parts in which the batch was delivered (SessionOptions::micro). Except for the
  /// position, everything above describes one part. Next returns the first one.
  std::uint32_t parts() const;
  /// Part `part` of the batch. It keeps the whole batch alive. REQUIRES: part < parts().
  Batch Part(std::uint32_t part) const;

  /// The packed form of the whole batch, if SessionOptions::packed asked for it; otherwise null.
  const std::shared_ptr<const PackedBatch>& packed() const;
  /// Keeps the memory of the tensors alive, for views that outlive the batch.
  std::shared_ptr<const void> owner() const;

  struct Rep;
  explicit Batch(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}

 private:
  const DeliveredBatch& delivered() const;

  std::shared_ptr<const Rep> rep_;
};

}  // namespace millrace
