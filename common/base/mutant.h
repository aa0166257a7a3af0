// Deliberate bugs: tests/sim switches them on, one at a time, to see that it catches each.
// Everywhere else IsMutant is false at compile time, and leaves nothing behind.
#pragma once

#include <cstdint>

namespace millrace {

enum class Mutant : std::uint8_t {
  kNoMutant,
  kNextNeedsCredit,          // what a consumer needs next waits for credit
  kRoomIgnored,              // a worker builds all that it has leases for
  kCreditBeyondMemory,       // a consumer gives more credit than it has memory
  kPositionOffByOne,         // a session begins one step late
  kPositionMovesOnReceipt,   // the place moves when a batch comes, not when the loop takes it
  kTailCutWrong,             // the last step gives its remainder to the wrong rank
  kCopyDeliveredTwice,       // a second copy is handed to the loop as well
  kLaterArrivalWins,         // of two rivals the one that came last stays
  kNumberOnAdmission,        // a session gets its number with its Welcome
  kWelcomeBeforeCommit,      // a job begins before its record is on disk
  kStoreFenceOff,            // the store takes writes of any term
  kLowerTermObeyed,          // peers obey a dispatcher whose term is over
  kFailingWorkerGivenAgain,  // a consumer gets leases on a worker that fails it
  kSelfLeaseOff,             // without a dispatcher nobody leases
  kCopiesNotCompared,        // the digest of a second copy is not looked at
  kLapsedLeaseKept,          // the leases of a failed worker stay with it
  kSilentWorkerTrusted,      // a worker that owes and says nothing is waited for
  kLeasesAskedLate,          // a window that opens is told of with the next report in turn
};
inline constexpr int kMutants = 18;

#ifdef MILLRACE_MUTANTS
inline thread_local Mutant active_mutant = Mutant::kNoMutant;
inline bool IsMutant(Mutant mutant) { return active_mutant == mutant; }
#else
constexpr bool IsMutant(Mutant /*mutant*/) { return false; }
#endif

}  // namespace millrace
