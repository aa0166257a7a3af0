// The last events of a dispatcher, in sentences for an operator. Decisions never depend on it.
// docs/reference/status.md lists the kinds.
//
// It is bounded, and no burst drives out the rest. Events of one kind within kTogether are one
// event, with a count. If there are too many events, the oldest event of the most frequent kind is
// dropped.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include "common/base/protocol_limits.h"
#include "common/base/time.h"

namespace millrace {

enum class EventKind : std::uint8_t {
  kDispatcherBegan,
  kTookOver,
  kTermOver,
  kPaused,
  kStoreFailed,
  kStoreWorks,
  kDatasetFailed,
  kDigestsDiffer,
  kBatchesDiffer,
  kPlanFailed,
  kMeasuringFailed,
  kWorkerJoined,
  kWorkerDraining,
  kWorkerUndrained,
  kWorkerLeft,
  kWorkerLost,
  kWorkerReturned,
  kWorkerRefused,
  kStepsMoved,
  kListGrew,
  kJobBegan,
  kJobEnded,
  kJobFailed,
  kJobTurnedOut,
  kConsumerLost,
  kConsumerResumed,
  kConsumerReplaced,
  kConsumerRefused,
  kConsumerFailed,
  kPipelineRefused,
  kTuning,
};
inline constexpr std::size_t kEventKinds = static_cast<std::size_t>(EventKind::kTuning) + 1;

/// The word of a kind, such as "worker_lost".
std::string_view EventKindName(EventKind kind);

struct NewEvent {
  EventKind kind;
  std::string text;         // a sentence; if it has no full stop at its end, it gets one
  std::string job = {};     // empty: it is about no job
  std::string peer = {};    // worker or consumer that it is about; may be empty
  std::uint32_t count = 1;  // number of things that it reports
};

struct PastEvent {
  std::uint64_t number;  // from 1
  Time at;               // when it happened first
  NewEvent what;
};

class EventLog {
 public:
  /// Events of one kind and job within this time after the first are counted as one.
  static constexpr Duration kTogether = std::chrono::seconds(10);
  /// So many jobs have events of their own, of one kind and in that time. The events of further
  /// jobs are counted in one event that names no job.
  static constexpr std::size_t kJobsApart = 4;

  void Add(NewEvent event, Time now);
  /// Takes the job's name from its events, because another owner's job of this name may begin.
  void DetachJob(const std::string& job);

  /// The oldest first; at most kMaxEvents.
  const std::deque<PastEvent>& events() const { return events_; }

 private:
  /// The event that counts further events of this kind and job now; nullptr if there is none.
  PastEvent* Open(EventKind kind, const std::string& job, Time now);
  /// Number of events of the kind that count others now.
  std::size_t CountOpen(EventKind kind, Time now) const;
  void DropOne();

  std::deque<PastEvent> events_;
  std::uint64_t last_number_ = 0;
};

}  // namespace millrace
