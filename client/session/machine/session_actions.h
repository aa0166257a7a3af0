// What passes between a session's state machine and the threads, timers and streams around it.
//
// Thread-compatible value types.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "client/session/machine/lease.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/batch/layout/layout.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/worker.pb.h"

namespace millrace::client {

/// Names one stream for as long as a session lives; 0 is none. What comes from a stream that was
/// closed is ignored by its name.
using StreamId = std::uint64_t;

struct OpenAttach {
  StreamId stream = 0;
  std::string address;
};
/// REQUIRES of the machine: no write of that stream is outstanding.
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
/// A stream of either kind. Ok: half-closed, all was said.
struct CloseStream {
  StreamId stream = 0;
  Status why;
};
using Action = std::variant<OpenAttach, SendAttach, OpenBatches, SendWants, CloseStream>;

/// A complete batch, its digest checked: what the machine has to know of it.
struct Arrival {
  Number lease;
  Position at;
  Digest128 digest;         // of header and payload
  std::uint64_t bytes = 0;  // packed
  bool in_place = false;    // it lies where its worker built it
  Fingerprint fingerprint;
  std::uint64_t epoch = 0;
  std::uint64_t first_example = 0;
  std::uint32_t planned_examples = 0;
  std::uint32_t examples = 0;       // that are in it
  std::vector<DropReason> dropped;  // one of each that is not
};

/// What becomes of an arrival.
enum class Verdict {
  kTaken,      // it is the session's copy of that step: keep it for the loop
  kDuplicate,  // another copy came first
  kUnwanted,   // no step that the session still lacks
  kWrong,      // not what the lease says: its worker has been given up
};

/// What a session knows since its first Welcome.
struct Admission {
  Fingerprint fingerprint;
  Position start;
  v1::Spec spec;
  std::string static_digest;
};

struct SessionMachineOptions {
  std::string address;  // of the dispatcher; several with commas between them
  v1::Hello hello;      // without session, admitted and highest_term
  std::uint64_t prefetch_bytes = 256u << 20;
  Duration connect_timeout = std::chrono::seconds(30);  // to the dispatcher's first word
  Duration attach_timeout{0};  // to the Welcome; 0: as long as the dispatcher says wait
};

}  // namespace millrace::client
