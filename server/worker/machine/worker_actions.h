// What a worker is set up with, and what passes from its state machine to the threads and streams
// around it.
//
// Thread-compatible value types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/worker.pb.h"
#include "server/worker/machine/build_queue.h"
#include "server/worker/machine/memory_use.h"

namespace millrace {

struct WorkerOptions {
  std::string name;         // for people; host:pid where not given
  std::string address;      // where consumers reach its batch service
  std::string host_id;      // equal for processes of one host
  std::string unix_socket;  // where consumers of this host reach it; empty: nowhere
  std::string dispatcher;   // host:port, or several with commas between them
  int threads = 1;
  std::uint64_t memory_bytes = 1u << 30;  // of batches built and not sent, at most
  std::uint64_t memory_limit = 0;         // of the process; 0: none
  std::function<MemoryUse()> memory_use;  // of the process; null: as the kernel says
  std::string version;
  std::size_t max_streams = 20'000;  // of consumers
};

/// What a worker wants done.
struct WorkerAction {
  /// Streams to the dispatcher are numbered from 1; one is open at a time.
  struct OpenWork {
    std::uint64_t attempt;
    std::string address;
  };
  /// Answered with OnWorkWritten. The adapter adds the datasets' states, with the file lists of
  /// `list_files`.
  struct SendWork {
    std::uint64_t attempt;
    v1::WorkRequest report;
    std::vector<std::string> list_files;
  };
  struct CloseWork {
    std::uint64_t attempt;
    Status why;
  };
  /// A part without data. Answered with OnSent. The adapter adds the stage of the batch that Alive
  /// says is being built.
  struct SendPart {
    BuildQueue::StreamId stream;
    v1::BatchPart part;
  };
  /// All parts of a batch. Answered with OnSent, after the last.
  struct SendBatch {
    BuildQueue::StreamId stream;
    BuildQueue::Outgoing batch;
  };
  /// Nothing of the stream is wanted any more; answered with nothing.
  struct CloseStream {
    BuildQueue::StreamId stream;
    Status why;
  };
  /// Answered with OnPlan, unless the plan is forgotten before.
  struct CompilePlan {
    v1::PlanSpec spec;
  };
  /// Is any of the files in use damaged? Answered with OnPlan where that ends a plan.
  struct LookAtFiles {};
  /// More may be built than before: see NextBuild.
  struct WakeBuilders {};

  using Any = std::variant<OpenWork, SendWork, CloseWork, SendPart, SendBatch, CloseStream,
                           CompilePlan, LookAtFiles, WakeBuilders>;
};

}  // namespace millrace
