#include "server/dispatcher/machine/counters.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/wait_causes.h"

namespace millrace {
namespace {

std::uint64_t More(std::uint64_t before, std::uint64_t now) {
  return now > before ? now - before : 0;
}

/// The metric's label for reasons without a name. They count as one reason, because a metric's
/// label must have few values.
constexpr const char* kOtherReason = "other";

using ByReason = std::map<std::string, std::uint64_t>;

/// Counts by the names of their reasons; `count_of` reads the number of one.
template <class Counts, class CountOf>
ByReason Named(const Counts& counts, const DropReasonNames& names, CountOf count_of) {
  ByReason named;
  for (const auto& one : counts) {
    const std::string_view name = names.Find(static_cast<std::uint64_t>(one.reason()));
    named[name.empty() ? kOtherReason : std::string(name)] += count_of(one);
  }
  return named;
}

ByReason DroppedOf(const v1::Counters& counters, const DropReasonNames& names) {
  return Named(counters.dropped(), names, [](const auto& one) { return one.examples(); });
}

ByReason LostOf(const v1::Counters& counters, const DropReasonNames& names) {
  return Named(counters.pieces_lost(), names, [](const auto& one) { return one.pieces(); });
}

void AddMore(const ByReason& before, const ByReason& now, ByReason& sum) {
  for (const auto& [reason, count] : now) {
    const auto was = before.find(reason);
    sum[reason] += More(was == before.end() ? 0 : was->second, count);
  }
}

std::map<v1::WaitCause, double> WaitedOf(const v1::Counters& counters) {
  std::map<v1::WaitCause, double> waited;
  for (const auto& w : counters.waited()) {
    const bool sane = std::isfinite(w.seconds()) && w.seconds() > 0;
    if (sane && v1::WaitCause_IsValid(w.cause())) waited[w.cause()] += w.seconds();
  }
  return waited;
}

}  // namespace

std::string CauseLabel(v1::WaitCause cause) { return std::string(WaitCauseName(FromProto(cause))); }

void DispatcherCounters::WillApply(const Update& update) {
  std::visit(
      [this](const auto& u) {
        if constexpr (requires { On(u); }) On(u);
      },
      update);
}

void DispatcherCounters::On(const TermBegun&) {
  sessions_.clear();
  for (auto& [name, job] : jobs_) job.sessions = 0;
}

void DispatcherCounters::On(const SessionOpened& u) {
  Session& session = sessions_[u.id];
  session.job = u.hello.job();
  session.replica = u.hello.replica();
  session.returned = u.hello.admitted();
  Job& job = JobOf(session.job);
  ++job.sessions;
  job.heard = u.at;
  ForgetJobs();
}

void DispatcherCounters::On(const SessionPlanned& u) {
  const auto session = sessions_.find(u.id);
  if (session == sessions_.end()) return;
  session->second.drop_reasons = DropReasonsOf(u.plan.spec);
  Job& job = JobOf(session->second.job);
  if (!u.plan.spec.token_tensor().empty() && !job.tokens) job.tokens = 0;
}

void DispatcherCounters::On(const SessionReported& u) {
  const auto found = sessions_.find(u.id);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  JobOf(session.job).heard = u.at;
  const v1::Counters& counters = u.report.counters();
  if (!std::exchange(session.returned, false)) CountDelivered(session, counters, u.at);
  session.counted = counters;
}

void DispatcherCounters::CountSteps(const v1::Counters& before, const v1::Counters& counters) {
  for (auto* all : {&asks_, &moved_}) {
    for (Steps& steps : *all) {
      steps.count += More((before.*steps.counter)(), (counters.*steps.counter)());
    }
  }
}

void DispatcherCounters::CountDelivered(Session& session, const v1::Counters& counters, Time at) {
  const v1::Counters& before = session.counted;
  CountSteps(before, counters);
  duplicates_ += More(before.duplicates(), counters.duplicates());
  mismatches_ += More(before.duplicate_mismatches(), counters.duplicate_mismatches());
  Job& job = JobOf(session.job);
  if (counters.batches() > before.batches()) job.progressed = at;
  if (session.replica != 0) return;  // it gets the same batches as replica 0
  job.batches += More(before.batches(), counters.batches());
  job.examples += More(before.examples(), counters.examples());
  job.bytes += More(before.bytes(), counters.bytes());
  job.wire_bytes += More(before.wire_bytes(), counters.wire_bytes());
  if (job.tokens) *job.tokens += More(before.tokens(), counters.tokens());
  AddMore(DroppedOf(before, session.drop_reasons), DroppedOf(counters, session.drop_reasons),
          dropped_);
  AddMore(LostOf(before, session.drop_reasons), LostOf(counters, session.drop_reasons),
          job.pieces_lost);
  const auto waited_before = WaitedOf(before);
  for (const auto& [cause, seconds] : WaitedOf(counters)) {
    const auto was = waited_before.find(cause);
    job.waited[cause] += std::max(0.0, seconds - (was == waited_before.end() ? 0 : was->second));
  }
}

void DispatcherCounters::On(const SessionEnded& u) {
  const auto session = sessions_.find(u.id);
  if (session == sessions_.end()) return;
  --JobOf(session->second.job).sessions;
  sessions_.erase(session);
}

void DispatcherCounters::Committed(double seconds, const Status& status) {
  commits_.Observe(seconds);
  if (!status.ok()) ++commit_errors_[CodeLabel(status.code())];
}

DispatcherCounters::Job& DispatcherCounters::JobOf(const std::string& name) { return jobs_[name]; }

void DispatcherCounters::ForgetJobs() {
  while (jobs_.size() > kJobsKept) {
    auto oldest = jobs_.end();
    for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
      if (it->second.sessions > 0) continue;
      if (oldest == jobs_.end() || it->second.heard < oldest->second.heard) oldest = it;
    }
    if (oldest == jobs_.end()) return;
    jobs_.erase(oldest);
  }
}

void DispatcherCounters::AddTo(MetricSet& metrics, Time now, double unix_seconds) const {
  const auto add = [&](Metric metric, MetricSet::Labels labels, auto value) {
    metrics.Add(metric, std::move(labels), static_cast<double>(value));
  };
  for (const Steps& steps : asks_) add(Metric::kAsks, {steps.label}, steps.count);
  for (const Steps& steps : moved_) add(Metric::kStepsMoved, {steps.label}, steps.count);
  add(Metric::kDuplicateBatchesDropped, {}, duplicates_);
  add(Metric::kDuplicateMismatch, {}, mismatches_);
  // The reasons of every kind of dataset are there from the beginning.
  std::map<std::string, std::uint64_t> dropped = dropped_;
  for (const DropReason reason : kNamedDropReasons) dropped[std::string(DropReasonName(reason))];
  dropped[kOtherReason];
  for (const auto& [reason, count] : dropped) add(Metric::kExamplesDropped, {reason}, count);
  for (const auto& [name, job] : jobs_) {
    add(Metric::kBatchesDelivered, {name}, job.batches);
    add(Metric::kExamplesDelivered, {name}, job.examples);
    if (job.tokens) add(Metric::kTokensDelivered, {name}, *job.tokens);
    for (const auto& [reason, pieces] : job.pieces_lost) {
      add(Metric::kPiecesLost, {name, reason}, pieces);
    }
    add(Metric::kBatchBytes, {name}, job.bytes);
    add(Metric::kBatchWireBytes, {name}, job.wire_bytes);
    for (int c = v1::WAIT_ATTACH; c <= v1::WaitCause_MAX; ++c) {
      const auto cause = static_cast<v1::WaitCause>(c);
      const auto waited = job.waited.find(cause);
      add(Metric::kConsumerWaitSeconds, {name, CauseLabel(cause)},
          waited == job.waited.end() ? 0 : waited->second);
    }
    const double at = job.progressed ? unix_seconds - ToSeconds(now - *job.progressed) : 0;
    add(Metric::kLastProgress, {name}, at);
  }
  metrics.Set(Metric::kStoreCommitSeconds, {backend_}, commits_);
  add(Metric::kStoreErrors, {backend_, CodeLabel(StatusCode::kUnavailable)}, 0);
  for (const auto& [kind, count] : commit_errors_) {
    add(Metric::kStoreErrors, {backend_, kind}, count);
  }
}

}  // namespace millrace
