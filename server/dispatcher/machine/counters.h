// The counters among a dispatcher's metrics, since it began. They follow from its updates
// (updates.h), which DispatcherCounters sees before they are applied, and from its commits. They
// outlive the sessions that they are about.
//
// A consumer's own counters are cumulative, so only their differences count here. If a session
// comes back from an earlier dispatcher, its first report adds nothing: the earlier dispatcher has
// counted it.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/metrics.h"
#include "common/batch/layout/drop_reasons.h"
#include "server/dispatcher/machine/updates.h"

namespace millrace {

/// The name of a cause as `millrace status` shows it, for example "build".
std::string CauseLabel(v1::WaitCause cause);

class DispatcherCounters {
 public:
  /// How many jobs' figures are kept. If there are more, jobs without a session are forgotten. The
  /// job with the oldest news goes first.
  static constexpr std::size_t kJobsKept = 256;

  /// `backend` names the store.
  explicit DispatcherCounters(std::string backend) : backend_(std::move(backend)) {}

  void WillApply(const Update& update);
  /// Counts a commit that took `seconds` and ended with `status`.
  void Committed(double seconds, const Status& status);

  /// Adds all counters. `now` and `unix_seconds` are the same moment.
  void AddTo(MetricSet& metrics, Time now, double unix_seconds) const;

 private:
  struct Job {
    std::uint64_t batches = 0;
    std::uint64_t examples = 0;
    std::uint64_t bytes = 0;
    std::uint64_t wire_bytes = 0;
    std::optional<std::uint64_t> tokens;               // nothing: no plan of the job has had tokens
    std::map<std::string, std::uint64_t> pieces_lost;  // by the name of the reason
    std::map<v1::WaitCause, double> waited;
    std::optional<Time> progressed;
    Time heard;
    int sessions = 0;
  };
  struct Session {
    std::string job;
    std::uint32_t replica = 0;
    bool returned = false;  // its next report adds nothing to the counts
    v1::Counters counted;
    DropReasonNames drop_reasons;  // the plan's
  };

  void On(const TermBegun& u);
  void On(const SessionOpened& u);
  void On(const SessionPlanned& u);
  void On(const SessionReported& u);
  void On(const SessionEnded& u);
  void CountDelivered(Session& session, const v1::Counters& counters, Time at);
  void CountSteps(const v1::Counters& before, const v1::Counters& counters);
  Job& JobOf(const std::string& name);
  void ForgetJobs();

  const std::string backend_;
  std::map<std::string, Job> jobs_;
  std::map<SessionId, Session> sessions_;
  /// A count of steps by the label of its metric, and the counter of consumers that it sums.
  struct Steps {
    const char* label;
    std::uint64_t (v1::Counters::*counter)() const;
    std::uint64_t count = 0;
  };
  std::array<Steps, 3> asks_{{{"first", &v1::Counters::asks_first},
                              {"copy", &v1::Counters::asks_copy},
                              {"moved", &v1::Counters::asks_moved}}};
  std::array<Steps, 3> moved_{{{"failed", &v1::Counters::moved_failed},
                               {"drained", &v1::Counters::moved_drained},
                               {"refused", &v1::Counters::moved_refused}}};
  std::uint64_t duplicates_ = 0;
  std::uint64_t mismatches_ = 0;
  std::map<std::string, std::uint64_t> dropped_;  // by the name of the reason
  Histogram commits_;
  std::map<std::string, std::uint64_t> commit_errors_;  // by the label of the code
};

}  // namespace millrace
