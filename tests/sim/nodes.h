// The processes of a simulated history, and its jobs: what each has beside its state machine. World
// (world.h) runs them.
//
// Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/session/machine/session_machine.h"
#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/worker/machine/worker_machine.h"
#include "server/worker/service/builder.h"
#include "tests/sim/history.h"
#include "tests/sim/host_data.h"
#include "tests/sim/network.h"
#include "tests/sim/places.h"

namespace millrace::sim {

using Moves = std::optional<int>;  // how many actions until a crash, if one is to come

/// The process at one end of a link, by its index, and its own number of the link.
struct AtLink {
  std::size_t index;
  std::uint64_t stream;
};

/// What is on disk of a column.
struct KeptColumn {
  std::set<std::uint64_t> ranges;
  bool whole = false;
};

struct DispatcherNode {
  ProcessId process = 0;
  std::set<std::pair<std::string, std::uint64_t>> kept;  // columns' ranges, by this process
  std::unique_ptr<DispatcherMachine> machine;
  std::uint64_t term = 0;
  std::set<std::string> open;  // datasets
  Moves crash;
};

/// What a batch is: plan, epoch and examples.
using BatchName = std::tuple<std::string, std::uint64_t, ExampleRange>;

struct WorkerStream {
  LinkId link = 0;
  v1::WantList wants;
};

struct WorkerNode {
  ProcessId process = 0;
  std::unique_ptr<WorkerMachine> machine;
  std::map<WorkerMachine::StreamId, WorkerStream> streams;
  LinkId work = 0;
  std::uint64_t attempt = 0;  // number of the attempt that opened `work`
  std::uint64_t highest_term = 0;
  std::map<std::string, PlanData> plans;      // those that were compiled, by fingerprint
  std::map<std::uint64_t, BatchName> builds;  // under way, by their numbers
  std::map<BatchName, std::weak_ptr<const BuiltBatch>> built;
  std::uint32_t building = 0;
  Time slow_until;
  Time wrong_until;
  Moves crash;
};

struct Kept {
  ExampleRange range;
  Digest128 digest;
};

struct TrainerNode {
  ProcessId process = 0;
  std::size_t job = 0;
  std::uint32_t rank = 0;
  std::uint32_t replica = 0;
  Places places;
  Position start;
  Position end;
  std::unique_ptr<client::SessionMachine> state;
  v1::AttachRequest first_message;
  LinkId attach = 0;
  std::map<client::StreamId, LinkId> links;
  std::set<client::StreamId> spoken;  // streams on which the worker has spoken
  std::uint64_t highest_term = 0;
  Time started;
  std::optional<Time> numbered;  // when it got its number
  bool numbered_by_leader = true;
  std::map<std::uint64_t, Kept> kept;  // by step
  std::map<std::uint64_t, Digest128> first_digest;
  std::uint64_t differing_copies = 0;
  /// By step: who failed to build it.
  std::map<std::uint64_t, std::map<WorkerId, std::size_t>> tried;
  std::optional<Position> expected;  // position of its next step
  std::uint64_t taken = 0;
  std::uint64_t largest_bytes = 0;
  Time busy_until;
  std::optional<Time> waits_since;
  std::optional<Time> servable_since;     // since when it knows a worker that is ready
  std::optional<Time> datasetless_since;  // since when it waits, and no worker has its dataset
  std::optional<Time> unviable_since;     // since when it waits, and every worker lost its data
  Time slow_until;
  Time next_tick;
  bool finished = false;
  bool gone = false;  // killed, or ended with an error
  std::string where;
  Moves crash;
};

struct Delivered {
  Position at;
  ExampleRange range;
  std::uint64_t step = 0;  // examples in a step of all ranks
};

struct Job {
  JobSetup setup;
  std::string name;
  Places places;
  Position launched_at;
  std::vector<std::size_t> trainers;  // those of the present launch
  std::vector<Delivered> delivered;   // batches that the job's checkpoints count as taken
  std::uint64_t launches = 0;
  bool relaunching = false;
  bool done = false;

  std::size_t seats() const { return places.world_size * setup.replicas; }
};

}  // namespace millrace::sim
