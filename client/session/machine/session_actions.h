// The data that pass between a session's state machine and the threads, timers and streams around
// it.
//
// Thread-compatible value types.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "client/session/machine/stats.h"
#include "client/session/machine/worker_address.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/batch/layout/layout.h"
#include "common/compression/compression.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/worker.pb.h"

namespace millrace::client {

/// The name of one stream, unique within a session; 0 means no stream. The machine ignores events
/// of a stream that was closed.
using StreamId = std::uint64_t;

struct OpenAttach {
  StreamId stream = 0;
  std::string address;
};
/// The machine puts this action only if no write of that stream is outstanding.
struct SendAttach {
  StreamId stream = 0;
  v1::AttachRequest message;
};
struct OpenBatches {
  StreamId stream = 0;
  WorkerAddress worker;
};
struct SendWants {
  StreamId stream = 0;
  v1::WantList message;
};
/// Closes a stream of either kind. If `why` is ok, the stream is only half-closed, since the
/// session has said everything.
struct CloseStream {
  StreamId stream = 0;
  Status why;
};
/// Frees memory that is kept for batches, as fewer of them will come.
struct TrimMemory {};
using Action =
    std::variant<OpenAttach, SendAttach, OpenBatches, SendWants, CloseStream, TrimMemory>;

/// The facts that the machine needs about a complete batch whose digest was checked.
struct Arrival {
  Position at;
  Digest128 digest;              // of header and payload
  std::uint64_t bytes = 0;       // packed
  std::uint64_t wire_bytes = 0;  // that came over a network for it, compressed or not
  bool in_place = false;         // it is where its worker built it
  Fingerprint fingerprint;
  std::uint64_t epoch = 0;
  std::uint64_t first_example = 0;
  std::uint32_t planned_examples = 0;
  BatchCounts counts;
};

/// The machine's decision about an arrival.
enum class Verdict {
  kTaken,      // it is the session's copy of that step: keep it for the loop
  kDuplicate,  // another copy came first
  kUnwanted,   // the session does not need that step now
  kWrong,      // not the batch of that step: its worker has been given up
};

/// The facts that a session knows from its first Welcome on.
struct Admission {
  Fingerprint fingerprint;
  Position start;
  v1::Spec spec;
  std::string static_digest;
};

struct SessionMachineOptions {
  std::string address;  // of the dispatcher; several addresses have commas between them
  v1::Hello hello;      // the machine sets session, admitted and highest_term
  std::uint64_t prefetch_bytes = 256u << 20;  // at most, if they are tuned
  bool tune = false;
  Compression compression = Compression::kOff;          // that workers are asked for
  Duration connect_timeout = std::chrono::seconds(30);  // until the dispatcher's first message
  Duration attach_timeout{0};  // until the Welcome; 0: as long as the dispatcher says wait
  Duration read_timeout{0};    // until the batch comes that the loop waits for; 0: no limit
};

}  // namespace millrace::client
