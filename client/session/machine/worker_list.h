// The consumer's list of workers, as dispatchers send it.
//
// A dispatcher that began a moment ago does not know all workers yet. So its lists remove nobody
// for 10 s: members that they do not name stay, behind the others. Without a dispatcher the list
// stays as it is; if it is empty, the one before is used again, because a network that loses a
// dispatcher may have cut it off from all workers a moment earlier.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/session/machine/session_times.h"
#include "client/session/machine/worker_address.h"
#include "common/base/time.h"

namespace millrace::client {

class WorkerList {
 public:
  static constexpr Duration kKeepMembers = std::chrono::seconds(10);

  /// Numbers begin anew with each Welcome.
  void OnWelcome() { number_ = 0; }
  /// Takes the list of a dispatcher of this term. Returns false if it is not newer than the last
  /// one.
  bool Take(const v1::WorkerList& list, std::uint64_t term, Time now);
  /// Notes that the stream to the dispatcher has ended. Returns true if the members have changed.
  bool OnDispatcherLost();
  /// Returns true if the members have changed, because a new dispatcher has had its time.
  bool Tick(Time now);
  void AddTimes(NextDue& next) const {
    if (keep_until_) next.At(*keep_until_);
  }
  /// The number of the last list of this term's dispatcher; 0: no list came.
  std::uint64_t NumberOf(std::uint64_t term) const { return term == term_ ? number_ : 0; }
  /// The present members, in order.
  std::vector<WorkerAddress> Members() const;

 private:
  std::uint64_t term_ = 0;
  std::uint64_t number_ = 0;
  std::vector<WorkerAddress> told_;
  std::vector<WorkerAddress> kept_;  // of earlier lists
  std::vector<WorkerAddress> last_;  // the last nonempty members
  std::optional<Time> keep_until_;
};

}  // namespace millrace::client
