// What one event does to a dispatcher: the updates of its facts and the actions that it causes, in
// order. The parts of the machine decide through it: they read the facts here, change them by
// updates, and say what they want done.
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

namespace millrace {

/// When something happens.
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

  // --- For the parts ---
  const DispatcherOptions& options() const { return options_; }
  const DispatcherFacts& facts() const { return facts_; }
  Time now() const { return now_.time; }
  std::int64_t unix_seconds() const { return now_.unix_seconds; }

  void Apply(const Update& update);
  Number NewNumber();
  void Do(Action action) { actions_.push_back(std::move(action)); }
  void Log(LogLevel level, std::string event,
           std::vector<std::pair<std::string, std::string>> fields);
  /// Nothing where the stream is not open. A consumer gets a code that makes it do the right thing.
  void Close(StreamId stream, const Status& status);
  /// The job is brought to where its sessions want it before the event ends.
  void Unsettle(const std::string& job) { unsettled_.insert(job); }
  /// All workers are told before the event ends which plans and files are wanted.
  void TellWorkers() { tell_workers_ = true; }

  // --- For the machine, around the parts ---
  /// Everybody is given the time of a pause of our own. Time never goes back.
  void Begin(Moment now);
  /// The first of the unsettled jobs, which counts as settled from then on.
  std::optional<std::string> TakeUnsettled();
  bool TakeTellWorkers() { return std::exchange(tell_workers_, false); }
  Actions TakeActions() { return std::exchange(actions_, {}); }

 private:
  const DispatcherOptions options_;
  const std::function<void(const Update&)> watch_;
  DispatcherFacts facts_;
  Moment now_;
  std::set<std::string> unsettled_;
  bool tell_workers_ = false;
  Actions actions_;
};

}  // namespace millrace
