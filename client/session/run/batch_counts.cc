#include "client/session/run/batch_counts.h"

#include "common/batch/layout/layout.h"

namespace millrace::client {

BatchCounts CountsOf(const PackedBatch& batch, std::string_view token_tensor) {
  BatchCounts counts;
  counts.examples = batch.examples();
  if (!token_tensor.empty()) {
    const auto tensor = batch.Find(token_tensor);
    if (tensor) counts.tokens = batch.tensors()[*tensor].rows;
  }
  for (const DroppedExample& dropped : batch.info().dropped) {
    counts.dropped.push_back(dropped.reason);
  }
  counts.lost_pieces = batch.info().lost_pieces;
  return counts;
}

}  // namespace millrace::client
