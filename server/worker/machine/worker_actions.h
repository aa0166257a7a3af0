// A worker's options, and the actions that its state machine asks of the threads and streams around
// it.
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
#include "common/compression/compression.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/worker.pb.h"
#include "server/worker/machine/build_queue.h"
#include "server/worker/machine/memory_use.h"

namespace millrace {

struct WorkerOptions {
  std::string name;           // for people
  std::string address;        // where consumers reach its batch service
  std::string host_id;        // equal for processes of one host
  std::string unix_socket;    // where consumers of this host reach it; empty: no such socket
  std::string dispatcher;     // host:port, or several with commas between them
  int threads = 1;            // the most that build; if not given: the first limit
  bool tune = false;          // whether threads and processes follow the need
  bool threads_given = true;  // whether all of them always build
  std::function<int()> cpus;  // CPUs that this process may use; null: as at first
  std::uint64_t memory_bytes = 1u << 30;  // limit of batches that are built and not sent
  std::uint64_t memory_limit = 0;         // limit of the process in bytes; 0: no limit
  std::function<MemoryUse()> memory_use;  // memory of the process; null: ask the kernel
  std::string version;
  std::size_t max_streams = 20'000;            // consumers' streams at once
  std::function<v1::PortSecurity()> security;  // how its batch port is protected; null: unknown
};

/// The actions that the state machine asks for.
struct WorkerAction {
  /// Open a stream to the dispatcher at `address`. Attempts are numbered from 1, and one stream is
  /// open at a time.
  struct OpenWork {
    std::uint64_t attempt;
    std::string address;
  };
  /// Send a report to the dispatcher. The adapter adds the states of all datasets, and the file
  /// lists of the datasets in `list_files`. It answers with OnWorkWritten.
  struct SendWork {
    std::uint64_t attempt;
    v1::WorkRequest report;
    std::vector<std::string> list_files;
  };
  /// Close the stream to the dispatcher.
  struct CloseWork {
    std::uint64_t attempt;
    Status why;
  };
  /// Send a message without data to a consumer. Answered with OnSent. If it has Alive, the adapter
  /// adds the stage of each build under way.
  struct SendControl {
    BuildQueue::StreamId stream;
    v1::BatchFragment message;
    std::vector<std::uint64_t> builds = {};  // BuildTask::build, of each Alive.building
  };
  /// Send all fragments of a batch to a consumer. The adapter answers with OnSent after the last
  /// fragment.
  struct SendBatch {
    BuildQueue::StreamId stream;
    BuildQueue::Outgoing batch;
    Compression compression = Compression::kOff;  // that its fragments may have
  };
  /// Close a consumer's stream. The machine has forgotten it and expects no answer.
  struct CloseStream {
    BuildQueue::StreamId stream;
    Status why;
  };
  /// Compile a plan. The adapter answers with OnPlan, unless the machine forgets the plan before.
  struct CompilePlan {
    v1::PlanSpec spec;
  };
  /// Check whether files in use are damaged. The adapter calls OnPlan for each plan that cannot be
  /// served any more.
  struct SnapshotFiles {};
  /// Wake the threads that build: NextBuild may have more for them than before.
  struct WakeBuilders {};

  using Any = std::variant<OpenWork, SendWork, CloseWork, SendControl, SendBatch, CloseStream,
                           CompilePlan, SnapshotFiles, WakeBuilders>;
};

}  // namespace millrace
