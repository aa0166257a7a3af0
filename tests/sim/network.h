// Simulates processes and the streams between them, in simulated time. It simulates delays,
// back-pressure, partitions, lost messages, pauses and deaths.
//
// A stream is a link between two processes. Each direction keeps its order. A message is blocked
// while its receiver stands still or a partition lies between; then all messages behind it wait
// too. A writer is told that its message was written as soon as at most `buffered` messages are on
// their way.
//
// All randomness comes from one generator. Not thread-safe.
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
  /// Runs `what` in process `who`, later by `after`. It never runs if the process is dead by then.
  /// If the process stands still, it runs when the process goes on.
  void In(ProcessId who, Duration after, Task what);
  /// Runs `what` later by `after`, outside all processes.
  void After(Duration after, Task what) { At(now_ + after, std::move(what)); }
  /// Runs the next event. Returns false if there is none up to `end`.
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
  /// Breaks the streams of the process. Nothing more happens in it.
  void Kill(ProcessId who);
  void Pause(ProcessId who, Duration d);
  void BreakStreamsOf(ProcessId who);
  /// Blocks messages from one process to another, in this direction only.
  void Block(ProcessId from, ProcessId to, Duration d);
  /// Loses one in three messages to and from the process.
  void Lose(ProcessId who, Duration d) { processes_[who].loses_until = now_ + d; }
  bool IsBlocked(ProcessId from, ProcessId to) const;
  /// Delivers one in three messages to and from the process twice. The second copy may come after
  /// later messages.
  void Repeat(ProcessId who, Duration d) { processes_[who].repeats_until = now_ + d; }
  /// Whether no process is paused, nothing is blocked, and no messages are lost or repeated.
  bool Calm() const;

  // --- Links ---
  /// Opens a link. `closed_a` and `closed_b` are called once, when the other end closes or the link
  /// breaks. They are not called if this end closes the link itself.
  LinkId Open(ProcessId a, ProcessId b, std::function<void(const Status&)> closed_a,
              std::function<void(const Status&)> closed_b);
  /// Sends a message. `arrive` runs at the other end. `written` runs at this end when the next
  /// message may be sent. A message with `control` may be lost or repeated (see Lose and Repeat).
  void Send(LinkId link, ProcessId from, Task arrive, Task written, bool control = true);
  /// Closes the link. The other end is told after all earlier messages have arrived.
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
    Task arrive;   // empty: the message is lost
    Task written;  // empty once it was called
    bool repeats = false;
    bool last = false;  // it closes the link
    Status why;         // for the last message: why the link is closed
  };
  struct Direction {
    ProcessId from = 0;
    ProcessId to = 0;
    std::deque<Message> queue;
    bool pumping = false;  // an event is scheduled that delivers the first message of the queue
    bool closed = false;   // no message may be sent any more
  };
  struct Link {
    Direction directions[2];
    std::function<void(const Status&)> closed[2];  // the first is a's, the second b's
  };

  void At(Time time, Task what) { events_.emplace(time, std::move(what)); }
  void Pump(LinkId id, int which);
  void Deliver(LinkId id, int which);
  void TellWritten(LinkId id, int which);
  void Break(LinkId id);
  /// When the next message of the direction is no longer blocked. If that is now or earlier, it is
  /// not blocked.
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
