// What happens in one simulated history, drawn from its seed: who takes part, and which faults
// strike when. Plain data, so that a history can be run again with less of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/epoch/position.h"

namespace millrace::sim {

enum class FaultKind : std::uint8_t {
  kKillWorker,       // and another process takes its place after a while
  kPauseWorker,      // stands still, and comes back as if nothing had been
  kSlowWorker,       // takes seconds for a batch, and says that it lives
  kKillDispatcher,   // at a random point between an event and what follows from it
  kPauseDispatcher,  // another one leads meanwhile; the old one comes back as a zombie
  kDispatcherGone,   // for long
  kWipeStore,        // the dispatcher comes back with an empty store, or an old one
  kStoreErrors,      // for a while
  kKillTrainers,     // all of a job; others resume from their checkpoint, in any world size
  kZombieTrainers,   // the same, but the old ones only stand still, and come back
  kPauseTrainer,     // one
  kSlowLoop,         // a trainer takes seconds for a step
  kBreakStreams,     // of one process
  kPartition,        // between two processes: streams stay open and carry nothing
  kOneWayPartition,  // from one process to another
  kLoseMessages,     // of one process, one in three, with nobody told
  kReplay,           // a trainer's first message comes again, on a stream of its own
  kClockStep,        // of the dispatcher's wall clock, by up to a month
  kWrongCopies,      // a worker's batches are not the plan's
  kCrashBetween,     // a process dies between two of the actions that one event brought
  kRepeatMessages,   // of one process, one in three: at once, or after what was sent later
  kDrainWorker,      // by itself, or by an operator; another process takes its place later
};
inline constexpr int kFaultKinds = 22;
const char* FaultName(FaultKind kind);

struct Fault {
  Duration at{0};  // since the start
  FaultKind kind = FaultKind::kKillWorker;
  std::uint32_t target = 0;  // of its kind of process, modulo how many there are
  std::uint32_t other = 0;   // a second number: the other side, how many actions, …
  Duration lasts{0};
};

struct JobSetup {
  std::uint64_t examples = 0;
  std::uint64_t size = 0;
  std::uint64_t global_size = 0;
  bool keep = false;
  std::uint32_t world_size = 1;
  Position start;
  std::uint64_t end_epoch = 1;
  std::uint64_t prefetch_bytes = 0;
};

struct History {
  std::uint64_t seed = 0;
  std::uint32_t workers = 2;
  std::uint32_t builders = 1;           // threads a worker
  std::uint64_t memory_bytes = 0;       // a worker's, of batches built and not sent
  std::uint32_t buffered_messages = 2;  // that a stream takes before its writer waits
  std::vector<JobSetup> jobs;
  std::vector<Fault> faults;
  Duration faulty{0};  // no fault begins later

  /// Whether one thing alone goes wrong, of which nobody may feel more than I9 says.
  bool HasOneFault() const;
};

History DrawHistory(std::uint64_t seed);
std::string Describe(const History& history);

}  // namespace millrace::sim
