// What a dispatcher has counted since it began: the counters among its metrics. They follow from
// its updates alone (updates.h), which it sees before they are applied, and outlive the sessions
// that they are about.
//
// A consumer's own counters are cumulative, so that only differences count here. A session that
// comes back from an earlier dispatcher begins with what its first report says: what it did before
// was counted there.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/metrics.h"
#include "server/dispatcher/machine/updates.h"

namespace millrace {

/// "build", as millrace status names the cause.
std::string CauseLabel(v1::WaitCause cause);

class DispatcherTally {
 public:
  /// Jobs whose figures are kept: beyond, those go that have no session and were heard of least
  /// lately.
  static constexpr std::size_t kJobsKept = 256;

  /// `backend` names the store.
  explicit DispatcherTally(std::string backend) : backend_(std::move(backend)) {}

  void WillApply(const Update& update);
  /// A commit took that long; `status` is what came of it.
  void Committed(double seconds, const Status& status);

  /// `now` and `unix_seconds` are the same moment.
  void AddTo(MetricSet& metrics, Time now, double unix_seconds) const;

 private:
  struct Job {
    std::uint64_t batches = 0;
    std::uint64_t examples = 0;
    std::uint64_t bytes = 0;
    std::map<v1::WaitCause, double> waited;
    std::optional<Time> progressed;
    Time heard;
    int sessions = 0;
  };
  struct Session {
    std::string job;
    std::uint32_t replica = 0;
    bool returned = false;  // its next report begins its count
    v1::Counters counted;
    std::uint64_t self_leases = 0;  // highest number that it gave to itself
    std::uint64_t stride = 0;       // 0: no plan yet
    Position granted;               // all before it has been leased once
    bool failing = false;           // its last report names failing workers
    bool late = false;              // … a late one
  };

  void On(const TermBegun& u);
  void On(const SessionOpened& u);
  void On(const SessionPlanned& u);
  void On(const SessionReported& u);
  void On(const SessionEnded& u);
  void On(const LeaseGranted& u);
  void CountDelivered(Session& session, const v1::Counters& counters, Time at);
  void CountSelfLeases(Session& session, const SessionReported& u);
  Job& JobOf(const std::string& name);
  void ForgetJobs();

  const std::string backend_;
  std::map<std::string, Job> jobs_;
  std::map<Number, Session> sessions_;
  std::map<std::string, std::uint64_t> moved_{{"failing", 0}, {"late", 0}, {"lost", 0}};
  std::uint64_t granted_ = 0;
  std::uint64_t self_leases_ = 0;
  std::uint64_t duplicates_ = 0;
  std::uint64_t mismatches_ = 0;
  std::map<v1::DropReason, std::uint64_t> dropped_;
  Histogram commits_;
  std::map<std::string, std::uint64_t> commit_errors_;  // by code, as a label has it
};

}  // namespace millrace
