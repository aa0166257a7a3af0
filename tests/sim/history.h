// Describes one simulated history: who takes part, and which faults happen when. All of it is drawn
// from the history's seed. It is plain data, so that a history can be run again without some of its
// faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/epoch/position.h"

namespace millrace::sim {

enum class FaultKind : std::uint8_t {
  kKillWorker,       // a worker dies; another process takes its place after a while
  kPauseWorker,      // a worker stands still for a while and then goes on
  kSlowWorker,       // a worker takes seconds for a batch, and keeps sending that it is alive
  kKillDispatcher,   // a dispatcher dies
  kPauseDispatcher,  // a dispatcher stands still and comes back; another may lead meanwhile
  kDispatcherGone,   // a dispatcher dies, and none takes its place for longer
  kWipeStore,        // the dispatcher comes back with an empty store or an old one
  kStoreErrors,      // the store fails for a while
  kKillTrainers,     // all trainers of a job die; others resume, with any world size
  kZombieTrainers,   // as kKillTrainers, but the old trainers stand still and come back
  kPauseTrainer,     // one trainer stands still for a while
  kSlowLoop,         // a trainer takes seconds for a step
  kBreakStreams,     // all streams of one process break
  kPartition,        // streams between two processes stay open and carry nothing
  kOneWayPartition,  // streams carry nothing from one process to another
  kLoseMessages,     // one in three messages of a process is lost, and nobody is told
  kReplay,           // a trainer's first message comes again, on a stream of its own
  kClockStep,        // the dispatcher's wall clock jumps by up to a month
  kWrongCopies,      // a worker sends batches that are not those of the plan
  kCrashBetween,     // a process dies between two actions that follow from one event
  kRepeatMessages,   // one in three messages of a process comes twice, maybe after later ones
  kDrainWorker,      // a worker is drained; another process takes its place later
  kBadWorkerData,    // a file of a worker's dataset goes bad, and is put back later
  kBadData,          // a file of a dispatcher's dataset goes bad, and is put back later
  kLacksData,        // a worker has no such dataset for a while, or opens it anew
  kReplacedData,     // a worker has other data under a dataset's id for a while
  kOtherCode,        // a worker has other code of the plugin for a while
};
inline constexpr int kFaultKinds = 27;
const char* FaultName(FaultKind kind);

struct Fault {
  Duration at{0};  // since the start
  FaultKind kind = FaultKind::kKillWorker;
  std::uint32_t target = 0;  // which process, job or trainer: modulo how many there are
  std::uint32_t other = 0;   // a second number: the other process, how many actions, …
  Duration lasts{0};
};

struct JobSetup {
  std::vector<std::size_t> datasets;  // of kDatasets: one, or those of a mix
  bool excludes = false;              // its pipeline excludes the files that may go bad
  std::uint64_t examples = 0;
  std::uint64_t size = 0;
  std::uint64_t global_size = 0;
  bool keep = false;
  std::uint32_t world_size = 1;
  std::uint32_t unit_rows = 0;  // the most examples of a unit that is a batch; 0: it is an example
  std::uint64_t window = 0;     // units of a window over data that no host maps; 0: none
  Position start;
  std::uint64_t end_epoch = 1;
  std::uint64_t prefetch_bytes = 0;
  std::uint32_t replicas = 1;  // trainers of each rank
  std::uint64_t measured = 0;  // examples to build for a column that its plan reads; 0: no column
  bool plugin = false;         // the code of a user builds its examples
  std::optional<std::uint64_t> fails;             // an example that this code can never build
  std::map<std::size_t, std::uint64_t> fails_at;  // by worker: one that it cannot build there
};

struct History {
  std::uint64_t seed = 0;
  std::uint32_t workers = 2;
  std::uint32_t builders = 1;           // threads of a worker
  std::uint64_t memory_bytes = 0;       // a worker's budget for batches that are built and not sent
  std::uint32_t buffered_messages = 2;  // how many a stream takes before its writer waits
  std::vector<std::set<std::size_t>> datasets;  // of each worker; a dispatcher has all
  std::vector<JobSetup> jobs;
  std::vector<Fault> faults;
  Duration faulty{0};  // no fault begins later than this after the start

  /// Whether there is exactly one fault, and it is of a kind after which nobody may wait for longer
  /// than I9 of docs/internals/protocol.md says.
  bool HasOneFault() const;
};

History DrawHistory(std::uint64_t seed);
std::string Describe(const History& history);

/// The ids of some of kDatasets, with commas between them.
std::string IdsOf(const std::vector<std::size_t>& datasets);

}  // namespace millrace::sim
