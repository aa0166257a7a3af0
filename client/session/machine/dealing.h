// Deals a session's steps to its workers: it decides as late as possible which of them builds which
// step, by who will have it here first.
//
// The rules (docs/internals/protocol.md, "Dealing"):
// - A step is dealt if it is within the bytes ahead, or if the loop needs it a few seconds after
//   the first worker could have it here.
// - It goes to the first member of the list that has it here in time, so the own host is preferred
//   while it keeps up.
// - If no member has, the fastest member with a free slot takes a later step instead, one that is
//   needed when this member is ready. The steps before it are left to faster members.
// - The loop's next step waits for no slot.
// - A step that is late is asked of a second member, too.
// - A step that a worker builds for a twin anyway, or has built, goes to that worker.
// - A step of a window that has a home (window_homes.h) goes there, slot or not, unless others
//   would have it here far sooner.
// Not thread-safe: part of the session's state machine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/session/machine/ask_book.h"
#include "client/session/machine/attach.h"
#include "client/session/machine/loop_pace.h"
#include "client/session/machine/session_context.h"
#include "client/session/machine/session_times.h"
#include "client/session/machine/stock.h"
#include "client/session/machine/window_homes.h"
#include "client/session/machine/worker_book.h"
#include "common/base/mutant.h"

namespace millrace::client {

class Dealing {
 public:
  /// Steps are asked for at most this far ahead.
  static constexpr std::uint64_t kReach = 4096;
  /// Runs and steps that one want list may name.
  static constexpr std::uint64_t kMostRuns = 256;
  static constexpr std::uint64_t kMostSteps = 4096;
  /// This many of these runs are left for the loop's next step, for copies and for twins, and for
  /// runs that fall apart because a batch in their middle comes first.
  static constexpr std::uint64_t kSpareRuns = 16;
  /// While a step is late and there is another worker, lags grow and copies are made this often.
  static constexpr Duration kLookEvery = std::chrono::milliseconds(50);
  /// Otherwise only the reach changes with time. A process may have a thousand sessions.
  static constexpr Duration kLookSeldom = std::chrono::milliseconds(500);
  /// Dispatcher and workers see for this long that a step finds no slot, so that they do not
  /// get the word twice for each batch that is built.
  static constexpr Duration kAsksFor = std::chrono::milliseconds(250);

  Dealing(const SessionContext& context, const Attach& attach, const Stock& stock,
          const LoopPace& pace, WorkerBook& workers, AskBook& asks)
      : context_(context),
        attach_(attach),
        stock_(stock),
        pace_(pace),
        workers_(workers),
        asks_(asks) {}

  // These functions REQUIRE that the session is admitted.
  /// Deals free steps to workers, until a rule stops.
  void Deal(Time now);
  /// Finds who is late, and makes copies. To be called when AddTimes asks for it.
  void Look(Time now);
  bool LookDue(Time now) const { return now >= looked_ + kLookEvery; }
  /// The worker has spoken. Steps that it has or builds for twins are moved to it, unless another
  /// worker has begun them.
  void MoveToTwins(WorkerLink& link, Time now);
  /// A step has come, from this worker; its asks have ended.
  void OnArrived(const StepAsks& ended, WorkerId from);

  /// Whether a free step within reach found no slot at the last dealing.
  bool wants_more() const { return wants_more_; }
  /// Whether wants_more() has been true within kAsksFor; dispatcher and workers get this value.
  bool asks(Time now) const { return wants_more_ || (wanted_ && now < *wanted_ + kAsksFor); }
  void AddTimes(NextDue& next) const;

 private:
  /// A batch is taken to need this long until somebody has built one.
  static constexpr double kGuessedSeconds = 0.05;

  /// A member that may be asked, and the cost of building one more step there. Seconds count from
  /// now.
  struct Member {
    WorkerLink* link = nullptr;
    double batch_seconds = 0;  // t
    double threads = 1;        // h
    bool known = false;        // it has built before
    bool trial_used = false;   // on trial, and has its only step
    double lag = 0;
    std::uint64_t open = 0;  // steps that are asked and take a slot: o
    std::uint64_t free = 0;  // slots that are left
    std::uint64_t left = 0;  // steps that are left to it until it has slots again
    std::uint64_t deal = 1;  // steps that are dealt at a time: k
    double finish = 0;       // when one more step is here: f
  };

  /// Updates wants_more(), too.
  void DealFree();
  void WantsMore() {
    wants_more_ = true;
    wanted_ = now_;
  }
  void FindMembers();
  void TakeSlots();
  void Estimate(Member& member) const;
  /// When one more step would be here if the member were asked for no other and were in time.
  double Soonest(const Member& member) const;
  void FindMedian();
  static bool HasSlot(const Member& member) { return member.free >= member.deal; }
  /// Whether a list to the member has a place for one more run.
  bool HasPlace(const Member& member) const {
    return asks_.Of(member.link->where.id).runs < kMostRuns;
  }
  static bool MayBuild(const Member& member, std::uint64_t step) {
    return !member.link->tried.contains(step) || IsMutant(Mutant::kFailedPlaceGivenAgain);
  }
  double NeededIn(std::uint64_t step) const { return pace_.NeededIn(step - stock_.next(), now_); }
  bool InReach(std::uint64_t step) const;
  bool InTime(const Member& member, std::uint64_t step) const;
  /// The member for `step`, the free step behind `at` others, or for a later step, whose place
  /// among the free ones is then in `at`. nullptr if no member has a slot.
  Member* Choose(std::uint64_t step, std::uint64_t& at);
  /// The member for the loop's next step, which waits for nothing.
  Member* ChooseForNext(std::uint64_t step);
  /// How many free steps a member leaves to members that finish earlier and have no slot now.
  std::uint64_t Skips(const Member& member, std::uint64_t step) const;
  /// The first step from the free one behind `at` others on that the member may build.
  std::uint64_t StepFor(const Member& member, std::uint64_t at) const;
  /// The member with the least finish among those for which `of` is true; nullptr if there is none.
  template <class Of>
  Member* Fastest(Of of);
  /// Asks the member for some steps from `first` on.
  void Give(Member& member, std::uint64_t first);
  void AddAsk(Member& member, std::uint64_t step, AskKind kind, bool shared);
  // dealing_preferred.cc
  Member* TwinOf(std::uint64_t step);
  /// The member that twins choose, too, among members that finish about as soon as the fastest one.
  Member* TwinsChoice(std::uint64_t step, const Member& fastest);
  void FindHomes();
  EpochWindow WindowOf(std::uint64_t step) const;
  /// The home of the step's window, if it has the step here in time or hardly later than any other
  /// member. REQUIRES: homes_.any().
  Member* HomeOf(std::uint64_t step);
  /// Asks the home of the step's window for the step, or leaves it to this member until it has
  /// slots. Returns false if the step has no home now.
  bool GiveHome(std::uint64_t step);
  /// How high a worker ranks for a step, for all twins alike.
  std::uint64_t RankOf(std::uint64_t step, WorkerId worker) const;
  void FindLags();
  void CopyLate();
  /// Whether one more worker may try a step that code of a user has failed to build.
  bool CodeMayTry(std::uint64_t step, const StepAsks& asks) const;
  /// Copies the step that the loop waits for if it only waits for other consumers' turns, and
  /// another member would have it here far sooner; no member would have when the step was dealt.
  void CopyQueued();
  /// Whether all workers that are asked build for other consumers only.
  bool ServesOthers(const StepAsks& asks) const;
  bool MayCopy(std::uint64_t step, const StepAsks& asks, double late, const Member& to) const;

  const SessionContext& context_;
  const Attach& attach_;
  const Stock& stock_;
  const LoopPace& pace_;
  WorkerBook& workers_;
  AskBook& asks_;
  WindowHomes homes_;

  Time now_;
  std::vector<Member> members_;
  std::optional<double> median_seconds_;  // of a batch, of the members that have built; m
  double soonest_ = 0;             // the least of the members'
  std::uint64_t first_reach_ = 0;  // of steps before the loop has made one
  std::uint64_t free_slots_ = 0;   // that are left of the consumer's share of all members
  std::uint64_t left_ = 0;         // steps that are left to members without a slot
  bool has_twins_ = false;
  bool wants_more_ = false;
  std::optional<Time> wanted_;  // when a step last found no slot
  Time looked_;
  Time first_due_;  // of the steps that are asked for and not built, when the next one is due

  double copies_won_ = 1;        // which part of the last copies came first
  std::uint64_t copied_at_ = 0;  // AskBook::made() at the last copy
};

template <class Of>
Dealing::Member* Dealing::Fastest(Of of) {
  Member* fastest = nullptr;
  for (Member& member : members_) {
    if (of(member) && (fastest == nullptr || member.finish < fastest->finish)) fastest = &member;
  }
  return fastest;
}

}  // namespace millrace::client
