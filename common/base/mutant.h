// Deliberate bugs. tests/sim switches them on, one at a time, to check that it catches each one. In
// every other program IsMutant is false at compile time, so no code of a mutant remains.
#pragma once

#include <cstdint>

namespace millrace {

enum class Mutant : std::uint8_t {
  kNoMutant,
  kNextNeedsCredit,          // a batch that the consumer needs next waits for credit
  kRoomIgnored,              // a worker builds everything that it has leases for
  kCreditBeyondMemory,       // a consumer gives more credit than it has memory for
  kPositionOffByOne,         // a session begins one step late
  kPositionMovesOnReceipt,   // the position moves when a batch arrives, not when the loop takes it
  kTailCutWrong,             // the last step gives its remainder to the wrong rank
  kCopyDeliveredTwice,       // a second copy of a batch goes to the loop too
  kLaterArrivalWins,         // of two rival copies, the one that arrived last wins
  kNumberOnAdmission,        // a session gets its number only with its Welcome
  kWelcomeBeforeCommit,      // a job begins before its record is on disk
  kStoreFenceOff,            // the store accepts writes of any term
  kLowerTermObeyed,          // peers obey a dispatcher whose term has ended
  kFailingWorkerGivenAgain,  // a consumer gets leases on a worker that failed it
  kSelfLeaseOff,             // nobody leases while there is no dispatcher
  kCopiesNotCompared,        // the digest of a second copy is not compared
  kLapsedLeaseKept,          // the leases of a failed worker stay with it
  kSilentWorkerTrusted,      // a consumer keeps waiting for a silent worker that owes it a batch
  kLeasesAskedLate,          // a window that opens is reported only with the next regular report
  kLostBatchAwaited,         // a consumer does not compare the batches that came with those sent
  kDataDigestIgnored,        // plans go to workers with other data under the dataset's id
  kFirstDatasetOnly,         // of a plan's datasets, workers are asked only for the first
  kUnreadyWorkerListed,      // lists name workers that have not compiled the plan
  kFailedPlanKept,           // a plan that once failed at a worker fails there for ever
  kDamageIgnored,            // a worker goes on with a plan whose files it has found bad
  kHopelessJobWaits,         // a job waits for ever if its last worker has lost its data
  kReasonUnsaid,             // a trainer is not told that no worker has its dataset
  kNothingShared,            // a worker builds a batch anew for each stream
  kBuiltForOneOnly,          // of the streams that wait for one build, only one gets the batch
  kLostRangesKept,           // ranges of a lost worker are given to no other to be measured
  kRangeCountedTwice,        // a range that two workers measured counts twice
  kMeasuredForgotten,        // what a worker has measured goes with its stream
  kOtherCodeServed,          // a worker serves a plan that compiles to another one there
  kTriesNotCounted,          // a batch that code of a user fails to build is tried everywhere
  kTriesCountedTogether,     // tries of different batches count as tries of one
  kListsNeverGrow,           // a consumer keeps its first workers, however idle the others are
  kFailedPlaceGivenAgain,    // a worker gets a batch again that a user's code failed to build there
};
inline constexpr int kMutants = 36;

#ifdef MILLRACE_MUTANTS
inline thread_local Mutant active_mutant = Mutant::kNoMutant;
inline bool IsMutant(Mutant mutant) { return active_mutant == mutant; }
#else
constexpr bool IsMutant(Mutant /*mutant*/) { return false; }
#endif

}  // namespace millrace
