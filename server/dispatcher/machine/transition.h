// The effects of one event on a dispatcher: updates of its facts, and actions, in order. The
// components of the machine work through it. They read the facts here, change them by updates, and
// say which actions they want done. They also note events for people.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/dispatcher/machine/actions.h"
#include "server/dispatcher/machine/dispatcher_facts.h"
#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/event_log.h"

namespace millrace {

/// The time of an event.
struct Moment {
  Time time;
  std::int64_t unix_seconds = 0;  // for job records only
};

class Transition {
 public:
  /// `watch` sees every update before it is applied.
  Transition(const DispatcherOptions& options, Moment now,
             std::function<void(const Update&)> watch);
  Transition(const Transition&) = delete;
  Transition& operator=(const Transition&) = delete;

  // --- For the components ---
  const DispatcherOptions& options() const { return options_; }
  const DispatcherFacts& facts() const { return facts_; }
  Time now() const { return now_.time; }
  std::int64_t unix_seconds() const { return now_.unix_seconds; }

  void Apply(const Update& update);
  /// A new number, for anything.
  Number NewNumber();
  void Do(Action action) { actions_.push_back(std::move(action)); }
  void Log(LogLevel level, std::string event,
           std::vector<std::pair<std::string, std::string>> fields);
  /// Notes an event for an operator. Log writes to the log of the process.
  void Note(NewEvent event) { events_.Add(std::move(event), now()); }
  void DetachEvents(const std::string& job) { events_.DetachJob(job); }
  /// Closes the stream if it is open. A consumer gets a code that shows whether to try again.
  void Close(StreamId stream, const Status& status);
  /// Marks the job, so that Admission::Reconcile is called for it before the event ends.
  void Mark(const std::string& job) { marked_.insert(job); }
  /// Before the event ends, all workers are sent the wanted plans and files.
  void TellWorkers() { tell_workers_ = true; }

  // --- For the machine, around the components ---
  const EventLog& events() const { return events_; }
  /// Begins an event. If this process has paused before it, everybody gets that much more time.
  /// Time never goes back.
  void Begin(Moment now);
  /// Takes the first marked job, and clears its mark. nullopt if no job is marked.
  std::optional<std::string> TakeMarked();
  bool TakeTellWorkers() { return std::exchange(tell_workers_, false); }
  Actions TakeActions() { return std::exchange(actions_, {}); }

 private:
  const DispatcherOptions options_;
  const std::function<void(const Update&)> watch_;
  DispatcherFacts facts_;
  Moment now_;
  std::set<std::string> marked_;
  bool tell_workers_ = false;
  Actions actions_;
  EventLog events_;
};

}  // namespace millrace
