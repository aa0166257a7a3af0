// Deliberate bugs. tests/sim switches them on, one at a time, to check that it catches each. In
// every other program IsMutant is false at compile time, so no code of a mutant remains.
#pragma once

#include <cstdint>

namespace millrace {

enum class Mutant : std::uint8_t {
  kNoMutant,
  kNextNeedsCredit,         // a batch that the consumer needs next waits for credit
  kUntilIgnored,            // a worker sends batches that its consumer has no memory for yet
  kDrainWaitsForHeld,       // a drain waits for batches that were sent, too
  kNegativeAge,             // a time later than now counts as very long ago
  kCreditBeyondMemory,      // a consumer gives more credit than it has memory for
  kPositionOffByOne,        // a session begins one step late
  kPositionMovesOnReceipt,  // the position moves when a batch arrives, not when the loop takes it
  kTailCutWrong,            // the last step gives its remainder to the wrong rank
  kCopyDeliveredTwice,      // a second copy of a batch goes to the loop too
  kLaterArrivalWins,        // of two rival copies, the one that arrived last wins
  kNumberOnAdmission,       // a session gets its number only with its Welcome
  kWelcomeBeforeCommit,     // a job begins before its record is on disk
  kStoreFenceOff,           // the store accepts writes of any term
  kLowerTermObeyed,         // peers obey a dispatcher whose term has ended
  kCopiesNotCompared,       // the digest of a second copy is not compared
  kFailedAsksKept,          // the asks of a failed worker are asked of nobody else
  kSilentWorkerTrusted,     // a consumer keeps waiting for a silent worker that owes it a batch
  kLostBatchAwaited,        // a consumer does not compare the batches that came with those sent
  kDataDigestIgnored,       // plans go to workers with other data under the dataset's id
  kFirstDatasetOnly,        // of a plan's datasets, workers are asked only for the first
  kUnreadyWorkerListed,     // lists have workers that have not compiled the plan
  kFailedPlanKept,          // a plan that once failed at a worker fails there for ever
  kDamageIgnored,           // a worker goes on with a plan whose files it has found bad
  kUnviableJobWaits,        // a job waits for ever if its last worker has lost its data
  kReasonUnsaid,            // a trainer does not learn that no worker has its dataset
  kNothingShared,           // a worker builds a batch anew for each stream
  kBuiltForOneOnly,         // of the streams that wait for one build, only one gets the batch
  kLostRangesKept,          // ranges of a lost worker are given to no other to be measured
  kRangeCountedTwice,       // a range that two workers measured counts twice
  kMeasuredForgotten,       // what a worker has measured goes with its stream
  kOtherCodeServed,         // a worker serves a plan that compiles to another one there
  kTriesNotCounted,         // a batch that code of a user fails to build is tried everywhere
  kTriesCountedTogether,    // tries of different batches count as tries of one
  kListsNeverGrow,          // a consumer keeps its first workers, however idle the others are
  kFailedPlaceGivenAgain,   // a worker gets a batch again that a user's code failed to build there
  kNextNeedsSlot,           // the loop's next step waits for a slot
  kBuiltCountsAsLate,       // a batch that waits for credit counts as late
  kBuiltTakesSlots,         // a batch that waits for credit takes a slot
  kNothingSkipped,          // a slow worker gets the lowest free step
  kCopiesUnlimited,         // every late step is copied
  kCopyToLateMember,        // a copy goes to a worker that is later than the step
  kAsksBeforeFirstWord,     // a worker is asked before it has spoken
  kUnknownTimeIsZero,       // a worker that has built nothing counts as the fastest
  kOwnHostOnly,             // workers elsewhere are not asked if the own host has one
  kEmptyListObeyed,         // a new dispatcher's first list removes members
  kLoopWaitsCounted,        // a step's time includes the loop's waits
  kTwinsIgnored,            // a step goes elsewhere though a worker has it for a twin
  kBothTwinsMove,           // of two twins, each moves to the other one's worker
};

#ifdef MILLRACE_MUTANTS
inline thread_local Mutant active_mutant = Mutant::kNoMutant;
inline bool IsMutant(Mutant mutant) { return active_mutant == mutant; }
#else
constexpr bool IsMutant(Mutant /*mutant*/) { return false; }
#endif

}  // namespace millrace
