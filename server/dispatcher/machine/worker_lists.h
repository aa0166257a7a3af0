// The lists: which workers each consumer may ask for steps. docs/internals/protocol.md, "Lists",
// has the rules.
//
// A list has the first usable workers in the session's order (list_order.h), as many as its size
// says (list_size.h). It is sent with each Welcome, and when it has changed, at most once in
// `list_every`. If thousands of long lists change at once, they go out tick by tick, in turn, so
// that no other event waits for them.
//
// Values that follow from the facts are kept, because a report has to be answered without a pass
// over all workers: the first workers of each session, and the base sizes of plans. A worker that
// changes is compared with these; all workers are visited only if too few are left.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/dispatcher/machine/list_order.h"
#include "server/dispatcher/machine/transition.h"

namespace millrace {

class WorkerLists {
 public:
  /// `transition` has to outlive it.
  explicit WorkerLists(Transition& transition)
      : transition_(transition), facts_(transition.facts()), options_(transition.options()) {}

  /// Adds the session's list to a message that has its Welcome and will be sent. REQUIRES: the
  /// session is live.
  void AddTo(SessionId session, v1::AttachResponse& response);
  /// Decides on the size of a session's list, after its report was applied, and sends the list if
  /// it has changed. REQUIRES: the session is live.
  void OnReport(SessionId session);
  /// Sends the lists that have changed and may be sent now. Called at the end of each event.
  void SendChanged();
  /// Finds workers that have fallen silent, and lets more lists go out.
  void Tick();

  /// Whether any worker may build for the session now: if so, its list has members, unless it may
  /// not be sent yet. False if the session has no plan.
  bool HasMembers(const SessionFacts& session) const;

  /// Must be called before each update is applied.
  void WillApply(const Update& update);

 private:
  /// The first usable workers of a session.
  struct First {
    ListOrder order;
    std::vector<ListPlace> places;  // in order
    bool all = false;               // no usable worker is missing
  };
  /// The facts of a plan that live sessions read.
  struct Plan {
    std::uint32_t base = 0;  // size of its lists, if all consumers take what they can get
    std::uint32_t most = 0;  // size, if those take it that use so many members now
    bool known = false;
  };

  /// The session's first workers, at least `members` if there are as many usable ones.
  const First& FirstOf(const SessionFacts& session, std::size_t members) const;
  void Fill(const SessionFacts& session, std::size_t members, First& first) const;
  /// Compares the workers that have changed with the kept values. Sessions whose lists may have
  /// changed are in `changed_sessions_` afterwards.
  void Refresh();
  /// Whether this worker's change has changed the session's first workers.
  bool Place(const SessionFacts& session, WorkerId worker, First& first) const;
  /// The sizes of the lists of the session's plan, which may be 250 ms old.
  const Plan& PlanOf(const SessionFacts& session);
  void ComputeBases();
  /// The sizes of lists, by plan, if each plan has so many consumers.
  std::map<std::string_view, std::uint32_t> ListSizes(
      const std::map<std::string_view, double>& consumers) const;
  /// The number of members that the session needs, by its last report, and their limit.
  ListNeeded NeededBy(const SessionFacts& session);
  /// Whether a usable worker outside the session's list has had an idle thread for some time.
  bool IdleOutside(const SessionFacts& session) const;
  /// Grows a list whose consumer waits while workers outside are idle.
  void GrowIfShort(const SessionFacts& session);
  /// The list as it shall be, without its number.
  std::vector<WorkerId> MembersOf(const SessionFacts& session, v1::WorkerList& list) const;
  /// Sends the list if it has changed, or `again`, because the consumer does not have it. It stays
  /// in `changed_sessions_` if it may not be sent now.
  void Send(const SessionFacts& session, bool again = false);

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;

  // Caches of values that follow from the facts.
  mutable std::unordered_map<SessionId, First> first_;  // by session
  std::map<std::string, Plan, std::less<>> plans_;      // by fingerprint
  bool bases_stale_ = true;
  Time bases_computed_;
  std::set<WorkerId> heard_;       // workers, at the last check
  std::map<WorkerId, Time> idle_;  // workers with an idle thread, since when

  std::set<WorkerId> changed_workers_;    // since the last Refresh
  std::set<SessionId> changed_sessions_;  // their lists may differ from the sent lists
  bool look_ = false;                     // whether SendChanged has something to do
  /// Members of all lists that go out between two ticks, which takes some milliseconds.
  static constexpr std::size_t kMembersATick = 16'384;
  std::size_t room_ = kMembersATick;  // for more of them
  SessionId turn_;                    // the session whose turn was last
};

}  // namespace millrace
