// The tasks that the build queue gives to builders and senders.
//
// Value types.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/epoch/position.h"
#include "server/worker/machine/shared_batches.h"

namespace millrace {

/// The batch of a step that a stream asks for.
struct BuildTask {
  BatchStreamId stream = 0;
  std::string plan;  // fingerprint
  std::string job;
  Position at;
  ExampleRange range;
  double charged = 0;       // build seconds that were added to the job's account in advance
  std::uint64_t build = 0;  // number of the build, which is never used again
  bool by_slices = false;   // several threads may build it together
};

/// A build that is under way for a step of a stream.
struct BuildUnderWay {
  Position at;
  std::uint64_t build = 0;  // BuildTask::build
};

/// A built batch on its way out.
struct OutgoingBatch {
  BuildTask task;
  std::shared_ptr<const BuiltBatch> batch;
  std::uint64_t bytes = 0;
  std::uint64_t credit_used = 0;   // bytes of the stream's credit, this batch included
  std::uint64_t batches_sent = 0;  // on the stream, this batch included
  bool shared = false;             // it was built for another stream
};

}  // namespace millrace
