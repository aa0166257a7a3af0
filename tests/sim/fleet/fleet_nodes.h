// The processes of a simulated fleet: what each has beside its state machine, and the streams
// between them. FleetWorld (fleet.h) runs them.
//
// Plain data, but for DecisionLog.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/session/machine/session_machine.h"
#include "common/base/log.h"
#include "server/worker/machine/worker_machine.h"

namespace millrace::sim {

/// Keeps the decisions that a machine logs, and counts the changes of its settings.
class DecisionLog final : public Logger {
 public:
  void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) override;

  const std::vector<std::string>& lines() const { return lines_; }
  /// Since the last Mark. A change that is undone counts twice.
  std::uint32_t changes() const { return changes_; }
  void Mark() { changes_ = 0; }

 private:
  std::vector<std::string> lines_;
  std::uint32_t changes_ = 0;
};

/// Time on a link that carries one message after the other.
class SerialLink {
 public:
  explicit SerialLink(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  /// Returns when the last byte has passed.
  Time Pass(Time from, std::uint64_t bytes);

 private:
  double bytes_per_second_;
  Time free_;
};

/// The stream of one consumer to one worker.
struct BatchLink {
  std::size_t consumer = 0;
  client::StreamId of_consumer = 0;
  std::size_t worker = 0;
  bool consumer_has = true;  // the consumer has not closed it, and was not told that it is closed
  bool worker_has = true;
  Time last_arrival;  // at the consumer
};

/// The stream of a process to the dispatcher.
struct DispatcherLink {
  bool of_worker = false;
  std::size_t index = 0;  // of the process
  std::uint64_t own = 0;  // the process's own number of the stream
  bool open = true;
};

struct FleetWorker {
  std::shared_ptr<DecisionLog> log = std::make_shared<DecisionLog>();
  std::unique_ptr<WorkerMachine> machine;
  std::optional<std::size_t> work;  // its stream to the dispatcher
  SerialLink out{1};
  int building = 0;
  std::uint64_t builds = 0;  // that have begun
  double cpu_share = 1;  // that neighbours leave it
  double slower = 1;     // by this factor its builds take longer
  bool leaves = false;   // it drains, and then stops
  bool up = true;
};

struct FleetConsumer {
  enum class Loop : std::uint8_t { kWaits, kSteps, kAtBarrier };

  std::shared_ptr<DecisionLog> log = std::make_shared<DecisionLog>();
  std::unique_ptr<client::SessionMachine> machine;
  std::size_t job = 0;
  std::unordered_map<client::StreamId, std::size_t> links;  // to workers: its number, and ours
  std::optional<std::size_t> attach;                        // its stream to the dispatcher
  SerialLink in{1};
  std::optional<Time> tick;  // that is planned
  Loop loop = Loop::kWaits;
  std::optional<Time> waits_since;
  std::uint64_t taken = 0;
  double waited_seconds = 0;
  std::uint64_t largest_held = 0;  // bytes
  Time last_taken;
  Duration longest_gap{0};  // between two steps that the loop took, since Mark
  // At Mark.
  std::uint64_t taken_before = 0;
  double waited_before = 0;
};

struct FleetJob {
  std::vector<std::size_t> consumers;
  std::uint32_t at_barrier = 0;
};

}  // namespace millrace::sim
