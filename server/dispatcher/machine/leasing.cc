#include "server/dispatcher/machine/leasing.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/base/mutant.h"
#include "common/base/refusal.h"
#include "server/dispatcher/machine/event_texts.h"
#include "server/dispatcher/machine/hello_check.h"
#include "server/dispatcher/machine/plan_data.h"
#include "server/dispatcher/machine/prospects.h"

namespace millrace {
namespace {

// At most one copy is granted for this many leases. Only the first copy needs no leases before it.
constexpr std::uint64_t kLeasesForACopy = 20;

std::vector<LeaseFacts> HeldLeases(const v1::Report& report) {
  std::vector<LeaseFacts> held;
  held.reserve(static_cast<std::size_t>(report.held_size()));
  for (const auto& lease : report.held()) {
    held.push_back({FromProto(lease.id()),
                    FromProto(lease.worker().id()),
                    {PositionOf(lease.shard()), lease.shard().batches()},
                    Time{},
                    lease.copy()});
  }
  return held;
}

}  // namespace

void Leasing::Hear(Number id, v1::Report report) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (!report.has_next()) {
    // A session that waits sends such a report only to be heard. If the session is live, its
    // Welcome was lost or is still on its way. A second one does no harm.
    if (session.live) sessions_.SendWelcome(id);
    return;
  }
  if (!session.live) {
    // Only a session that has had a Welcome can hold leases. Its report is kept until it is
    // admitted.
    if (!session.live_before) return;
    if (Status status = CheckReportSize(report, options_); !status.ok()) {
      return sessions_.Fail(id, status.WithContext(RankOfJob(session.hello)),
                            EventKind::kConsumerFailed);
    }
    Trim(report);
    transition_.Apply(SessionReportedEarly{id, std::move(report)});
    return;
  }
  if (Status status = CheckReport(report, *session.plan, options_); !status.ok()) {
    return sessions_.Fail(id, status.WithContext(RankOfJob(session.hello)),
                          EventKind::kConsumerFailed);
  }
  std::vector<LeaseFacts> held = HeldLeases(report);
  // The leases are most of a report. They are taken out, so that Trim does not go through them.
  google::protobuf::RepeatedPtrField<v1::Lease> taken;
  taken.Swap(report.mutable_held());
  Trim(report);
  const bool is_first = !session.report;
  NoteReport(session, report, held);
  transition_.Apply(SessionReported{id, std::move(report), std::move(held), transition_.now(),
                                    transition_.now() + -options_.lease_lapse});
  // A session that comes back may hold all that it asks for. Its twins share that.
  if (is_first) twins_.Add(session);
  CopyLate(id);
  if (facts_.FindSession(id) != nullptr) Fill(id);
}

void Leasing::NoteReport(const SessionFacts& session, const v1::Report& report,
                         const std::vector<LeaseFacts>& held) {
  for (NewEvent& event : EventsOf(session, report)) transition_.Note(std::move(event));
  if (report.failing().empty()) return;
  const std::map<Number, std::uint32_t> given_up = session.leases.GivenUp(
      held, FromProto(report.last_lease()), FromProto(report.next()), session.plan->steps.stride());
  for (const v1::Failing& failing : report.failing()) {
    const Number id = FromProto(failing.worker());
    const auto leases = given_up.find(id);
    if (leases == given_up.end()) continue;
    const Worker* worker = facts_.FindWorker(id);
    if (worker != nullptr) moved_[id] = {MovedFrom(id) + leases->second, transition_.now()};
    const std::string name = worker != nullptr ? worker->report.name() : id.ToString();
    transition_.Note({.kind = EventKind::kLeasesMoved,
                      .text = fmt::format(
                          "{} gave up {} leases of worker {}, which move to others: {}",
                          ConsumerSubject(session.hello), leases->second, name, failing.reason()),
                      .job = session.hello.job(),
                      .peer = name,
                      .count = leases->second});
  }
}

std::uint32_t Leasing::MovedFrom(Number worker) const {
  const auto moved = moved_.find(worker);
  if (moved == moved_.end()) return 0;
  return transition_.now() - moved->second.last < EventLog::kTogether ? moved->second.leases : 0;
}

void Leasing::CopyLate(Number id) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (!session.report->has_late() || session.stream == 0 || session.leases.HasCopy()) return;
  const LeaseFacts* late = session.leases.FindHeld(FromProto(session.report->late()));
  if (late == nullptr || facts_.copies_granted() * kLeasesForACopy > facts_.leases_granted())
    return;
  const WorkerSet& set = WorkersOf(session);
  const auto idle = std::find_if(set.workers.begin(), set.workers.end(), [&](const Worker* w) {
    return w->id != late->worker && w->report.queue_seconds() == 0 && w->granted_batches == 0 &&
           !session.failing.contains(w->id);
  });
  if (idle == set.workers.end()) return;
  v1::AttachResponse response;
  response.set_term(facts_.term());
  StepRun run = late->run;
  AddLease(id, **idle, run.batches, Kind::kCopy, run, response);
  transition_.Do(SendAttach{session.stream, std::move(response)});
}

StepRun Leasing::AddLease(Number id, const Worker& worker, std::uint32_t batches, Kind kind,
                          StepRun& run, v1::AttachResponse& response) {
  const SessionFacts& session = *facts_.FindSession(id);
  v1::Lease& lease = *response.add_leases();
  *lease.mutable_shard() = CutShard(session.plan->steps, session.hello.rank(), batches, run);
  lease.set_copy(kind == Kind::kCopy);
  const Number number = transition_.NewNumber();
  ToProto(number, lease.mutable_id());
  ToProto(worker, lease.mutable_worker());
  const StepRun steps{PositionOf(lease.shard()), lease.shard().batches()};
  transition_.Apply(LeaseGranted{
      id, {number, worker.id, steps, transition_.now(), lease.copy()}, kind == Kind::kShared});
  return steps;
}

void Leasing::Fill(Number id) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (!session.live || !session.report || session.stream == 0) return;
  const StepArithmetic& steps = session.plan->steps;
  const std::uint32_t window = std::min(session.report->window(), options_.max_window);
  std::vector<StepRun> gaps =
      session.leases.Gaps(steps, FromProto(session.report->next()), window, session.end_epoch());
  if (gaps.empty()) return;
  const WorkerSet& set = WorkersOf(session);
  const bool has_workers = !set.workers.empty();
  if (const Status status = CheckHope(session, has_workers); !status.ok()) {
    return sessions_.FailJob(id, status);
  }
  if (!has_workers) {
    if (!IsMutant(Mutant::kReasonUnsaid)) sessions_.Wait(id, NoWorkerWhy(session));
    return;
  }
  FillGaps(session, set, window, std::move(gaps));
}

void Leasing::FillGaps(const SessionFacts& session, const WorkerSet& set, std::uint32_t window,
                       std::vector<StepRun> gaps) {
  WorkerChooser workers(set);
  TwinTrail* const twins = twins_.TrailOf(session.id);
  const std::uint64_t stride = session.plan->steps.stride();
  const std::uint32_t shard_batches = ShardStepsOf(window, set.workers.size());
  v1::AttachResponse response;
  response.set_term(facts_.term());
  for (StepRun& gap : gaps) {
    while (gap.batches > 0) {
      if (response.leases_size() >= static_cast<int>(options_.max_leases_at_once)) break;
      const auto twin = twins == nullptr ? std::nullopt : twins->Find(gap.at, stride);
      const Worker* const shared =
          twin ? SharedWorker(twin->worker, session, set, workers) : nullptr;
      if (shared != nullptr) {
        AddLease(session.id, *shared, std::min(twin->batches, gap.batches), Kind::kShared, gap,
                 response);
        continue;
      }
      std::uint32_t batches = std::min(shard_batches, gap.batches);
      const Worker* worker = WorkerFor(session, gap, workers, set, batches);
      if (worker == nullptr) break;
      const StepRun steps = AddLease(session.id, *worker, batches, Kind::kFirst, gap, response);
      if (twins != nullptr) twins->Add(steps, stride, worker->id);
    }
  }
  if (response.leases().empty()) {
    sessions_.Wait(session.id, "the workers that are ready have failed to build its next batch");
    return;
  }
  if (!session.why.empty()) transition_.Apply(SessionTold{session.id, ""});
  transition_.Do(SendAttach{session.stream, std::move(response)});
}

const Worker* Leasing::WorkerFor(const SessionFacts& session, const StepRun& run,
                                 WorkerChooser& workers, const WorkerSet& set,
                                 std::uint32_t& batches) {
  const bool fail = set.workers.size() == 1 && session.failing.contains(set.workers[0]->id);
  if (!fail || IsMutant(Mutant::kFailedPlaceGivenAgain)) return &workers.Pick(batches, random_);
  const Worker* worker =
      FailedLongestAgo(facts_.workers(), session, run.at, transition_.now(), options_);
  if (worker == nullptr) return nullptr;
  const auto& refused = session.failing.at(worker->id).refused;
  const auto next = refused.upper_bound(run.at);
  if (next != refused.end() && next->first.epoch == run.at.epoch) {
    const std::uint64_t before =
        (next->first.example - run.at.example) / session.plan->steps.stride();
    batches = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(before, 1, batches));
  }
  return worker;
}

const Worker* Leasing::SharedWorker(Number id, const SessionFacts& session, const WorkerSet& set,
                                    WorkerChooser& workers) const {
  if (session.failing.contains(id)) return nullptr;
  const auto found = std::find_if(set.workers.begin(), set.workers.end(),
                                  [&](const Worker* worker) { return worker->id == id; });
  const Worker* worker = found == set.workers.end() ? nullptr : *found;
  if (set.own_host > 0) {
    // Workers of the consumer's own host spare the network, which may cost more than a build.
    if (found - set.workers.begin() >= static_cast<std::ptrdiff_t>(set.own_host)) return nullptr;
  } else if (worker == nullptr) {
    worker = facts_.FindWorker(id);
    if (worker == nullptr || !IsUsable(*worker, session, transition_.now(), options_)) {
      return nullptr;
    }
  }
  return workers.IsFair(*worker) ? worker : nullptr;
}

void Leasing::FillAll() {
  std::vector<Number> ids;
  for (const auto& [id, session] : facts_.sessions()) ids.push_back(id);
  for (const Number id : ids) {
    // A session may end together with another one.
    if (facts_.FindSession(id) != nullptr) Fill(id);
  }
}

Status Leasing::CheckHope(const SessionFacts& session, bool has_workers) const {
  if (IsMutant(Mutant::kHopelessJobWaits)) return OkStatus();
  const bool refused = std::any_of(session.failing.begin(), session.failing.end(),
                                   [](const auto& f) { return IsRefusedForGood(f.second.code); });
  if (has_workers && !refused) return OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckTries(facts_.workers(), session));
  // After a restart, workers come back one by one. A session from before the restart waits for
  // them.
  const bool earlier = session.id.term < facts_.term();
  if (earlier && transition_.now() - facts_.booted() < options_.session_timeout) return OkStatus();
  return CheckProspects(facts_.workers(), session, transition_.now(), options_);
}

std::string Leasing::WhyNot(const Worker& worker, const SessionFacts& session) const {
  if (!IsHeard(worker, transition_.now(), options_)) {
    return fmt::format("silent for {:.0f} s", ToSeconds(transition_.now() - worker.heard));
  }
  if (worker.draining()) return "it drains";
  std::string missing = MissingDataWhy(worker, *session.plan->facts);
  if (!missing.empty()) return missing;
  for (const auto& plan : worker.report.plans()) {
    if (plan.fingerprint() != session.plan->fingerprint) continue;
    if (plan.phase() == v1::FAILED) return "its plan failed: " + plan.error();
    if (plan.phase() == v1::COMPILING) return "the plan is being compiled";
    return fmt::format("{} is reachable from its own host only, and this consumer is on another",
                       worker.report.self().address());
  }
  return "it has not begun to compile the plan";
}

std::string Leasing::NoWorkerWhy(const SessionFacts& session) const {
  if (!session.plan) return {};
  if (!WorkersOf(session).workers.empty()) return {};
  const PlanFacts& plan = *session.plan->facts;
  if (facts_.workers().empty()) {
    return fmt::format("no worker has the {}: no worker is connected", NameDatasets(plan));
  }
  // The worker that is nearest to being ready tells most about what is missing.
  const Worker* named = nullptr;
  for (const auto& [id, worker] : facts_.workers()) {
    const auto rank = [&](const Worker& w) {
      return std::pair(IsHeard(w, transition_.now(), options_) && !w.draining(),
                       std::count_if(plan.datasets().begin(), plan.datasets().end(),
                                     [&w](const PlanDataset& dataset) {
                                       return w.report.datasets().contains(dataset.id);
                                     }));
    };
    if (named == nullptr || rank(*named) < rank(worker)) named = &worker;
  }
  return fmt::format("no worker has the {}: worker {} at {}: {}{}", NameDatasets(plan),
                     named->report.name(), named->report.self().address(), WhyNot(*named, session),
                     facts_.workers().size() > 1
                         ? fmt::format(" (and {} others)", facts_.workers().size() - 1)
                         : "");
}

const WorkerSet& Leasing::WorkersOf(const SessionFacts& session) const {
  return worker_sets_.Of(session, facts_.workers(), transition_.now(), options_);
}

void Leasing::WillApply(const Update& update) {
  worker_sets_.WillApply(update, facts_.workers(), transition_.now(), options_);
  if (const auto* ended = std::get_if<SessionEnded>(&update)) twins_.Forget(ended->id);
  if (const auto* left = std::get_if<WorkerLeft>(&update)) moved_.erase(left->id);
}

}  // namespace millrace
