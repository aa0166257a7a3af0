#include "server/dispatcher/machine/status.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include <fmt/core.h>

#include "common/transport/convert/drop_reasons.h"
#include "server/dispatcher/machine/branch_progress.h"
#include "server/dispatcher/machine/job_end.h"
#include "server/dispatcher/machine/plan_data.h"
#include "server/dispatcher/machine/usable_workers.h"

namespace millrace {
namespace {

double WaitedSeconds(const v1::Counters& counters) {
  double seconds = 0;
  for (const auto& waited : counters.waited()) seconds += waited.seconds();
  return seconds;
}

/// `old`: how long ago it was told.
void AddTuning(const v1::Tuning& tuning, Duration old, v1::Tuning& out) {
  out = tuning;
  for (v1::TuneDecision& decision : *out.mutable_decisions()) {
    decision.set_age_seconds(decision.age_seconds() + ToSeconds(old));
  }
}

void AddConsumer(const DispatcherMachine& dispatcher, const SessionFacts& session, Time now,
                 v1::ServiceStatus& status) {
  v1::ConsumerStatus& out = *status.add_consumers();
  out.set_job(session.hello.job());
  out.set_rank(session.hello.rank());
  out.set_replica(session.hello.replica());
  out.set_where(session.hello.where());
  ToProto(session.id, out.mutable_session());
  const bool silent = session.stream == 0 || now - session.heard >= std::chrono::seconds(3);
  out.set_state(!session.live ? "waiting" : silent ? "silent" : "live");
  const Position next = session.next();
  ToProto(next, out.mutable_next());
  if (session.plan) out.set_step(session.plan->steps.Step(next));
  out.set_list(static_cast<std::uint32_t>(session.list.members.size()));
  out.set_why(session.live ? dispatcher.NoWorkerWhy(session) : session.why);
  if (!session.report) return;
  const v1::Report& report = *session.report;
  out.set_buffered_batches(report.buffered_batches());
  out.set_buffered_bytes(report.buffered_bytes());
  *out.mutable_now() = report.now();
  if (report.has_grants()) *out.mutable_grants() = report.grants();
  out.set_list_used(report.used());
  out.set_asked(report.asked());
  out.set_built(report.built());
  out.set_due_seconds(report.due_seconds());
  *out.mutable_failing() = report.failing();
  *out.mutable_counters() = report.counters();
  *out.mutable_waited() = report.counters().waited();
  out.set_waited_seconds(WaitedSeconds(report.counters()));
  out.set_waited_last_minute_seconds(RatesOf(session).waited_seconds);
  AddTuning(session.tuning, now - session.tuning_told, *out.mutable_tuning());
  if (!session.samples.empty()) {
    const Time counted = session.samples.back().at;
    out.set_counted_seconds(ToSeconds(counted - dispatcher.facts().booted()));
  }
}

void SetPlace(const SessionFacts& session, v1::JobStatus& out) {
  const StepArithmetic& steps = session.plan->steps;
  const Position next = session.next();
  ToProto(next, out.mutable_next());
  out.set_step(steps.Step(next));
  out.set_steps_per_epoch(steps.StepsFrom(0));
  out.set_left_out_per_epoch(steps.LeftOut());
  out.set_progress(DoneBefore(steps, next));
  const double rate = RatesOf(session).batches;
  const auto left = static_cast<double>(steps.StepsFrom(next.example));
  out.set_eta_seconds(rate > 0 ? left / rate : 0);
  AddBranches(session.plan->spec, next, out);
}

void SetDesired(const DesiredFigure& figure, v1::DesiredWorkers& out) {
  out.set_workers(figure.workers);
  out.set_present(figure.present);
  out.set_demand_batches_per_second(figure.demand.value_or(0));
  out.set_worker_batches_per_second(figure.worker_rate.value_or(0));
  out.set_reserve(figure.reserve);
  out.set_arithmetic(ArithmeticOf(figure));
}

/// Adds a job that has sessions. If any are live, only these count. `record` may be null.
void AddLiveJob(const DispatcherMachine& dispatcher,
                const std::vector<const SessionFacts*>& sessions, const v1::JobRecord* record,
                v1::ServiceStatus& status) {
  v1::JobStatus& out = *status.add_jobs();
  const SessionFacts* slowest = nullptr;
  std::map<v1::DropReason, std::uint64_t> dropped, pieces_lost;
  for (const SessionFacts* session : sessions) {
    if (!session->live) continue;
    if (slowest == nullptr || session->next() < slowest->next()) slowest = session;
    if (session->hello.replica() != 0) continue;
    const Rates rates = RatesOf(*session);
    out.set_batches_per_second(out.batches_per_second() + rates.batches);
    out.set_examples_per_second(out.examples_per_second() + rates.examples);
    out.set_tokens_per_second(out.tokens_per_second() + rates.tokens);
    out.set_bytes_per_second(out.bytes_per_second() + rates.bytes);
    if (!session->report) continue;
    const v1::Counters& counters = session->report->counters();
    out.set_tokens(out.tokens() + counters.tokens());
    for (const auto& d : counters.dropped()) dropped[d.reason()] += d.examples();
    for (const auto& lost : counters.pieces_lost()) pieces_lost[lost.reason()] += lost.pieces();
  }
  const SessionFacts& session = slowest != nullptr ? *slowest : *sessions.front();
  const DropReasonNames names =
      session.plan ? DropReasonsOf(session.plan->spec) : DropReasonNames();
  const auto name_of = [&](v1::DropReason reason) {
    return std::string(names.Find(static_cast<std::uint64_t>(reason)));
  };
  for (const auto& [reason, examples] : dropped) {
    v1::DroppedCount& count = *out.add_dropped();
    count.set_reason(reason);
    count.set_examples(examples);
    count.set_name(name_of(reason));
  }
  for (const auto& [reason, pieces] : pieces_lost) {
    v1::LostPieces& count = *out.add_pieces_lost();
    count.set_reason(reason);
    count.set_pieces(pieces);
    count.set_name(name_of(reason));
  }
  out.set_name(session.hello.job());
  out.set_state(slowest != nullptr ? "live" : "waiting");
  out.set_world_size(session.hello.world_size());
  out.set_pipeline_yaml(session.hello.pipeline().yaml());
  out.set_variant(session.hello.pipeline().variant());
  if (session.plan) {
    out.set_fingerprint(session.plan->fingerprint);
    SetPlace(session, out);
  }
  out.set_why(slowest == nullptr ? session.why : dispatcher.NoWorkerWhy(session));
  out.set_owner(dispatcher.facts().OwnerOf(session.hello.job()));
  if (const DesiredFigure* desired = dispatcher.desired_workers().Find(out.name())) {
    SetDesired(*desired, *out.mutable_desired_workers());
  }
  if (record != nullptr && !record->ended()) {
    out.set_started_unix_seconds(record->started_unix_seconds());
  }
}

void SetEnd(const v1::JobEnd& end, v1::JobStatus& out) {
  out.set_outcome(std::string(OutcomeName(end.outcome())));
  out.set_ended_by(end.who());
  (end.outcome() == v1::JOB_FAILED ? *out.mutable_error() : *out.mutable_why()) = end.why();
  if (!end.has_next()) return;
  *out.mutable_next() = end.next();
  out.set_step(end.step());
  out.set_steps_per_epoch(end.steps_per_epoch());
  out.set_progress(end.progress());
}

/// Adds a job that has no sessions.
void AddKeptJob(const v1::JobRecord& record, v1::ServiceStatus& status) {
  v1::JobStatus& out = *status.add_jobs();
  out.set_name(record.name());
  out.set_owner(record.owner());
  out.set_state(record.ended() ? "ended" : "waiting");
  out.set_fingerprint(record.fingerprint());
  out.set_world_size(record.world_size());
  out.set_pipeline_yaml(record.pipeline().yaml());
  out.set_variant(record.pipeline().variant());
  out.set_started_unix_seconds(record.started_unix_seconds());
  out.set_ended_unix_seconds(record.ended_unix_seconds());
  if (record.ended()) {
    SetEnd(record.end(), out);
  } else {
    out.set_why("none of its sessions has come back to this dispatcher yet");
  }
}

/// Why a worker is not ready for everything that it is asked for; empty if it is ready.
std::string Unready(const Worker& worker) {
  for (const auto& [id, dataset] : worker.report.datasets()) {
    const auto difference = worker.differences.find(id);
    if (difference != worker.differences.end() && difference->second.digest == dataset.digest()) {
      return fmt::format("dataset {}: {}", id, difference->second.text);
    }
    if (!dataset.error().empty()) return fmt::format("dataset {}: {}", id, dataset.error());
    if (dataset.digest().empty()) {
      return fmt::format("indexing dataset {}: {:.0f} %", id, 100 * dataset.verifying());
    }
  }
  for (const auto& plan : worker.report.plans()) {
    if (plan.phase() == v1::FAILED)
      return fmt::format("plan {}: {}", plan.fingerprint(), plan.error());
    if (plan.phase() == v1::COMPILING) return fmt::format("compiling plan {}", plan.fingerprint());
  }
  return {};
}

/// A plan that is needed, and the first session that needs it.
struct NeededPlan {
  const PlanFacts* plan;
  const SessionFacts* session;
};

/// The plans that live sessions need, each once. There are few plans, but sessions and workers may
/// be thousands: each worker is compared with plans only.
std::vector<NeededPlan> NeededPlans(const DispatcherFacts& facts) {
  std::vector<NeededPlan> needed;
  std::set<const PlanFacts*> seen;
  for (const auto& [id, session] : facts.sessions()) {
    if (!session.live || !session.plan) continue;
    const PlanFacts* plan = session.plan->facts.get();
    if (seen.insert(plan).second) needed.push_back({plan, &session});
  }
  return needed;
}

/// Which datasets a worker lacks of those that jobs need; empty if it has all of them.
std::string LeftOut(const Worker& worker, const std::vector<NeededPlan>& needed) {
  for (const auto& [plan, session] : needed) {
    if (WorstDataState(worker.report, *plan) != DataState::kAbsent) continue;
    return fmt::format("job {}: {}", session->hello.job(), MissingDataWhy(worker, *plan));
  }
  return {};
}

void AddWorker(const Worker& worker, const ListUse& lists, const std::vector<NeededPlan>& needed,
               const DispatcherFacts& facts, const DispatcherOptions& options, Time now,
               v1::ServiceStatus& status) {
  const v1::WorkRequest& report = worker.report;
  v1::WorkerStatus& out = *status.add_workers();
  ToProto(worker.id, out.mutable_id());
  out.set_name(report.name());
  out.set_address(report.self().address());
  const std::string unready = Unready(worker);
  if (!IsHeard(worker, now, options)) {
    out.set_state("silent");
    out.set_why(worker.stream == 0 ? "its stream broke" : "its stream is open, nothing comes");
  } else if (worker.draining()) {
    out.set_state("draining");
  } else {
    out.set_state(unready.empty() ? "ready" : "preparing");
    out.set_why(unready.empty() ? LeftOut(worker, needed) : unready);
  }
  out.set_slots(report.slots());
  out.set_owed(report.owed());
  out.set_idle(lists.IdleWhy(worker, now, options));
  out.set_queue_seconds(report.queue_seconds());
  out.set_buffered_bytes(report.memory_bytes());
  out.set_memory_limit_bytes(report.memory_limit_bytes());
  out.set_streams(report.streams());
  *out.mutable_build() = report.build();
  out.set_send_blocked_seconds(report.send_blocked_seconds());
  *out.mutable_datasets() = report.datasets();
  out.set_version(report.version());
  out.set_threads(report.threads());
  out.set_sent_batches(report.sent_batches());
  out.set_sent_bytes(report.sent_bytes());
  out.set_shared_batches(report.shared_batches());
  if (report.has_cache()) *out.mutable_cache() = report.cache();
  *out.mutable_plugins() = report.plugins();
  if (report.has_security()) *out.mutable_security() = report.security();
  out.set_counted_seconds(ToSeconds(worker.heard - facts.booted()));
  AddTuning(worker.tuning, now - worker.tuning_told, *out.mutable_tuning());
}

}  // namespace

Rates RatesOf(const SessionFacts& session) {
  if (session.samples.size() < 2) return {};
  const CounterSample& first = session.samples.front();
  const CounterSample& last = session.samples.back();
  const double seconds = ToSeconds(last.at - first.at);
  if (seconds <= 0) return {};
  const auto per_second = [&](std::uint64_t a, std::uint64_t b) {
    return b <= a ? 0 : static_cast<double>(b - a) / seconds;
  };
  return {per_second(first.batches, last.batches), per_second(first.examples, last.examples),
          per_second(first.tokens, last.tokens), per_second(first.bytes, last.bytes),
          std::max(0.0, last.waited_seconds - first.waited_seconds)};
}

StatusBuild::StatusBuild(const DispatcherMachine& dispatcher, const DispatcherOptions& options)
    : dispatcher_(dispatcher), options_(options) {}

bool StatusBuild::Step(std::size_t rows, Time now) {
  const DispatcherFacts& facts = dispatcher_.facts();
  if (!begun_) AddService(now);
  begun_ = true;
  const auto& sessions = facts.sessions();
  for (auto it = sessions.upper_bound(session_); it != sessions.end(); ++it) {
    if (rows-- == 0) return false;
    session_ = it->first;
    AddConsumer(dispatcher_, it->second, now, status_);
    lists_.Add(it->second, facts.workers());
  }
  const auto& workers = facts.workers();
  const std::vector<NeededPlan> needed = NeededPlans(facts);
  for (auto it = workers.upper_bound(worker_); it != workers.end(); ++it) {
    if (rows-- == 0) return false;
    worker_ = it->first;
    AddWorker(it->second, lists_, needed, facts, options_, now, status_);
  }
  AddJobs();
  AddEvents(now);
  return true;
}

void StatusBuild::AddService(Time now) {
  const DispatcherFacts& facts = dispatcher_.facts();
  status_.set_version(options_.version);
  status_.set_address(options_.address);
  status_.set_term(facts.term());
  status_.set_uptime_seconds(ToSeconds(now - facts.booted()));
  const Status store =
      dispatcher_.stepped_down().ok() ? facts.StoreError() : dispatcher_.stepped_down();
  status_.set_store_error(store.message());
  if (const auto& desired = dispatcher_.desired_workers(); desired.has_looked()) {
    SetDesired(desired.fleet(), *status_.mutable_desired_workers());
  }
  for (const auto& [id, dataset] : facts.datasets()) {
    v1::DatasetState& out = (*status_.mutable_datasets())[id];
    out.set_kind(dataset.kind());
    out.set_digest(dataset.digest());
    out.set_verifying(dataset.verifying());
    out.set_error(dataset.error());
    out.set_files(dataset.files());
    out.set_examples(dataset.examples());
    out.set_left_out_files(dataset.left_out_files());
    *out.mutable_left_out() = dataset.left_out();
    // A dispatcher compares no contents itself.
    for (const auto& [number, worker] : facts.workers()) {
      const auto reported = worker.report.datasets().find(id);
      if (reported == worker.report.datasets().end()) continue;
      out.set_unverified(std::max(out.unverified(), reported->second.unverified()));
      out.set_in_memory_bytes(out.in_memory_bytes() + reported->second.in_memory_bytes());
    }
  }
}

void StatusBuild::AddJobs() {
  const DispatcherFacts& facts = dispatcher_.facts();
  std::map<std::string, std::vector<const SessionFacts*>> jobs;
  for (const auto& [id, session] : facts.sessions()) {
    jobs[session.hello.job()].push_back(&session);
  }
  for (const auto& [job, sessions] : jobs) {
    AddLiveJob(dispatcher_, sessions, facts.FindRecord(job), status_);
  }
  // Those that have ended come last, the newest first.
  std::multimap<std::int64_t, const v1::JobRecord*, std::greater<>> ended;
  for (const auto& [job, record] : facts.records()) {
    if (jobs.contains(job)) continue;
    if (record.ended()) {
      ended.emplace(record.ended_unix_seconds(), &record);
    } else {
      AddKeptJob(record, status_);
    }
  }
  for (const auto& [when, record] : ended) AddKeptJob(*record, status_);
}

void StatusBuild::AddEvents(Time now) {
  for (const PastEvent& event : dispatcher_.events().events()) {
    v1::Event& out = *status_.add_events();
    out.set_number(event.number);
    out.set_age_seconds(ToSeconds(now - event.at));
    out.set_kind(std::string(EventKindName(event.what.kind)));
    out.set_text(event.what.text);
    out.set_job(event.what.job);
    out.set_peer(event.what.peer);
    out.set_count(event.what.count);
  }
}

v1::ServiceStatus BuildStatus(const DispatcherMachine& dispatcher, const DispatcherOptions& options,
                              Time now) {
  StatusBuild build(dispatcher, options);
  build.Step(std::numeric_limits<std::size_t>::max(), now);
  return build.Take();
}

}  // namespace millrace
