#include "server/dispatcher/machine/reports.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/base/mutant.h"
#include "common/base/refusal.h"
#include "server/dispatcher/machine/event_texts.h"
#include "server/dispatcher/machine/hello_check.h"
#include "server/dispatcher/machine/plan_data.h"
#include "server/dispatcher/machine/prospects.h"
#include "server/dispatcher/machine/usable_workers.h"

namespace millrace {
namespace {

/// Whether the consumer has all batches that it wants: it needs no worker any more.
bool HasAll(const SessionFacts& session) {
  const Position next = session.next();
  const std::uint64_t end = session.end_epoch();
  if (next.epoch >= end) return true;
  const StepArithmetic& steps = session.plan->steps;
  const std::uint64_t here = session.report->buffered_batches();
  const std::uint64_t in_this_epoch = steps.StepsFrom(next.example);
  if (in_this_epoch > here) return false;
  return end - next.epoch - 1 <=
         (here - in_this_epoch) / std::max<std::uint64_t>(1, steps.StepsFrom(0));
}

/// Whether code of a user has failed at each member to build the batch that the loop needs next.
bool AllRefuseNext(const SessionFacts& session) {
  if (session.failing.empty() || session.list.members.empty()) return false;
  return std::all_of(
      session.list.members.begin(), session.list.members.end(), [&](WorkerId member) {
        const auto failing = session.failing.find(member);
        return failing != session.failing.end() && failing->second.refused.contains(session.next());
      });
}

}  // namespace

void Reports::Hear(SessionId id, v1::Report report) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (!report.has_next()) {
    // A session that waits sends such a report only to be heard. If the session is live, its
    // Welcome was lost or is still on its way. A second one does no harm.
    if (session.live) sessions_.SendWelcome(id);
    return;
  }
  if (!session.live) {
    // Only a session that has had a Welcome has a place. Its report is kept until it is admitted.
    if (!session.live_before) return;
    if (Status status = CheckReportSize(report); !status.ok()) {
      return sessions_.Fail(id, status.WithContext(RankOfJob(session.hello)),
                            EventKind::kConsumerFailed);
    }
    Trim(report);
    transition_.Apply(SessionReportedEarly{id, std::move(report)});
    return;
  }
  if (Status status = CheckReport(report, *session.plan); !status.ok()) {
    return sessions_.Fail(id, status.WithContext(RankOfJob(session.hello)),
                          EventKind::kConsumerFailed);
  }
  Trim(report);
  Note(session, report);
  transition_.Apply(SessionReported{id, std::move(report), transition_.now()});
  lists_.OnReport(id);
  Answer(id);
}

void Reports::Note(const SessionFacts& session, const v1::Report& report) {
  for (NewEvent& event : EventsOf(session, report)) transition_.Note(std::move(event));
  for (NewEvent& event : MovedSteps(session, report, facts_.workers())) {
    transition_.Note(std::move(event));
  }
}

void Reports::Answer(SessionId id) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (HasAll(session)) return;
  const bool has_members = lists_.HasMembers(session);
  if (const Status status = CheckViability(session, has_members); !status.ok()) {
    return sessions_.FailJob(id, status);
  }
  if (!has_members) {
    if (!IsMutant(Mutant::kReasonUnsaid)) sessions_.Wait(id, NoWorkerWhy(session));
  } else if (AllRefuseNext(session)) {
    sessions_.Wait(id, "the workers that are ready have failed to build its next batch");
  } else if (!session.why.empty()) {
    transition_.Apply(SessionTold{id, ""});
  }
}

Status Reports::CheckViability(const SessionFacts& session, bool has_members) const {
  if (IsMutant(Mutant::kUnviableJobWaits)) return OkStatus();
  const bool refused = std::any_of(session.failing.begin(), session.failing.end(),
                                   [](const auto& f) { return IsRefusedForGood(f.second.code); });
  if (has_members && !refused) return OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckTries(facts_.workers(), session));
  // After a restart, workers come back one by one. A session from before the restart waits for
  // them.
  const bool earlier = session.id.number().term < facts_.term();
  if (earlier && transition_.now() - facts_.booted() < options_.session_timeout) return OkStatus();
  return CheckProspects(facts_.workers(), session, transition_.now(), options_);
}

std::string Reports::WhyNot(const Worker& worker, const SessionFacts& session) const {
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

std::string Reports::NoWorkerWhy(const SessionFacts& session) const {
  if (!session.plan) return {};
  if (lists_.HasMembers(session)) return {};
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

}  // namespace millrace
