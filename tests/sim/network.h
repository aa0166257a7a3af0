// Processes, and ordered streams between them, in simulated time: delays, back-pressure,
// partitions, lost messages, pauses and deaths.
//
// A stream is a link between two processes. Each direction keeps its order; a message that is
// blocked (its receiver stands still, or a partition lies between) waits, and so does all behind
// it. A writer is told that its message was written while at most `buffered` messages are on their
// way.
//
// Not thread-safe; all randomness comes of one generator.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"

namespace millrace::sim {

using ProcessId = std::uint32_t;
using LinkId = std::uint64_t;
using Task = std::function<void()>;

class Network {
 public:
  Network(std::uint64_t seed, std::uint32_t buffered) : random_(seed), buffered_(buffered) {}

  // --- Time ---
  Time now() const { return now_; }
  /// `what` happens later in process `who`: not at all if that is dead by then, and only after it
  /// if it stands still.
  void In(ProcessId who, Duration after, Task what);
  /// The same, in the world around the processes.
  void After(Duration after, Task what) { At(now_ + after, std::move(what)); }
  /// Runs the next event; false where there is none before `end`.
  bool Step(Time end);

  // --- Chance ---
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  bool Chance(double p) { return std::uniform_real_distribution<double>()(random_) < p; }
  Duration UpTo(Duration d) { return Duration(static_cast<Duration::rep>(Below(d.count() + 1))); }
  double Unit() { return std::uniform_real_distribution<double>()(random_); }

  // --- Processes ---
  ProcessId AddProcess(std::string name);
  const std::string& NameOf(ProcessId who) const { return processes_[who].name; }
  bool IsUp(ProcessId who) const { return processes_[who].up; }
  bool StandsStill(ProcessId who) const { return processes_[who].still_until > now_; }
  /// Its streams break; nothing more happens in it.
  void Kill(ProcessId who);
  void Pause(ProcessId who, Duration d);
  void BreakStreamsOf(ProcessId who);
  /// From one process to another, one way.
  void Block(ProcessId from, ProcessId to, Duration d);
  /// One in three messages to or from it is lost.
  void Lose(ProcessId who, Duration d) { processes_[who].loses_until = now_ + d; }
  bool IsBlocked(ProcessId from, ProcessId to) const;
  /// One in three messages to or from it comes again, some after later ones.
  void Repeat(ProcessId who, Duration d) { processes_[who].repeats_until = now_ + d; }
  /// Whether nothing of all that goes on any more.
  bool Calm() const;

  // --- Links ---
  /// `closed_*`: called once, when the other end closes or the link breaks, never for one's own
  /// close.
  LinkId Open(ProcessId a, ProcessId b, std::function<void(const Status&)> closed_a,
              std::function<void(const Status&)> closed_b);
  /// `arrive` runs at the other end; `written` at this one, when the next may be sent. `control`:
  /// this message may get lost, or come twice, where messages do.
  void Send(LinkId link, ProcessId from, Task arrive, Task written, bool control = true);
  /// The other end learns of it, after all that was sent before.
  void Close(LinkId link, ProcessId from, const Status& why);
  bool IsOpen(LinkId link) const { return links_.contains(link); }

 private:
  struct Process {
    std::string name;
    bool up = true;
    Time still_until;
    Time loses_until;
    Time repeats_until;
    std::vector<LinkId> links;
  };
  struct Message {
    Time due;
    Task arrive;   // empty: lost
    Task written;  // empty once called
    bool repeats = false;
    bool last = false;
    Status why;  // of the last
  };
  struct Direction {
    ProcessId from = 0;
    ProcessId to = 0;
    std::deque<Message> queue;
    bool pumping = false;  // an event for its head is under way
    bool closed = false;   // nothing more is sent
  };
  struct Link {
    Direction directions[2];
    std::function<void(const Status&)> closed[2];  // of a, of b
  };

  void At(Time time, Task what) { events_.emplace(time, std::move(what)); }
  void Pump(LinkId id, int which);
  void Deliver(LinkId id, int which);
  void TellWritten(LinkId id, int which);
  void Break(LinkId id);
  /// When nothing blocks a message any more; now or earlier: nothing does.
  Time BlockedUntil(const Direction& direction) const;

  std::mt19937_64 random_;
  const std::uint32_t buffered_;
  Time now_{std::chrono::seconds(1000)};
  std::multimap<Time, Task> events_;
  std::vector<Process> processes_;
  std::map<std::pair<ProcessId, ProcessId>, Time> blocked_;
  std::map<LinkId, Link> links_;
  LinkId last_link_ = 0;
};

}  // namespace millrace::sim
