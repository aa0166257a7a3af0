#include "server/dispatcher/machine/admission.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/base/mutant.h"
#include "server/dispatcher/machine/asked_plans.h"
#include "server/dispatcher/machine/event_texts.h"
#include "server/dispatcher/machine/hello_check.h"

namespace millrace {
namespace {

std::string Holds(const SessionFacts& holder, const SessionFacts& newcomer) {
  const v1::Hello& hello = holder.hello;
  std::string text = fmt::format("job {} is held by {} (session {}, world size {}", hello.job(),
                                 hello.where(), holder.id.ToString(), hello.world_size());
  if (newcomer.hello.world_size() != hello.world_size()) {
    text += fmt::format(", not {}", newcomer.hello.world_size());
  }
  if (holder.plan->fingerprint != newcomer.plan->fingerprint) {
    text += fmt::format("; its plan is {}, not {}", holder.plan->fingerprint,
                        newcomer.plan->fingerprint);
  } else if (holder.wanted_start() != newcomer.wanted_start()) {
    text += fmt::format("; it started at {}, not {}", holder.wanted_start().ToString(),
                        newcomer.wanted_start().ToString());
  }
  return text + ")";
}

bool SameRank(const SessionFacts& a, const SessionFacts& b) {
  return a.hello.rank() == b.hello.rank() && a.hello.replica() == b.hello.replica();
}

Status TakenOver(const SessionFacts& lower, const SessionFacts& higher) {
  return Aborted(
      fmt::format("{} was taken over by {}", RankOfJob(lower.hello), higher.hello.where()));
}

}  // namespace

void Admission::Greet(StreamId stream, const v1::Hello& hello) {
  SessionId brought(FromProto(hello.session()));
  const SessionFacts* known =
      brought.is_set() ? facts_.FindSession(brought) : facts_.FindSessionByNonce(hello.nonce());
  if (known != nullptr && known->hello.nonce() != hello.nonce()) {
    // Another session has this number too: two dispatchers took the same term within a second, and
    // both issued it. This session is treated as if it had brought no number.
    brought = {};
    known = facts_.FindSessionByNonce(hello.nonce());
  }
  // If the first message of an ended session comes again, the session keeps its number. So it does
  // not count as younger than it is.
  if (known == nullptr && !brought.is_set()) brought = facts_.EndedNumber(hello.nonce());
  if (brought.is_set() && brought.number() <= facts_.TurnedOut(hello.job())) {
    return transition_.Close(stream,
                             Aborted(fmt::format("job {} was ended by an operator", hello.job())));
  }

  if (Status status = CheckOwner(stream, hello.job()); !status.ok()) {
    return TurnAway(stream, hello, status);
  }
  if (known != nullptr) {
    if (Status status = CheckSameSession(*known, hello); !status.ok())
      return TurnAway(stream, hello, status);
    const SessionId id = known->id;
    transition_.Close(known->stream, Cancelled("the session has opened a newer stream"));
    transition_.Apply(SessionAttached{id, hello, stream, transition_.now()});
    if (known->live) components_.sessions.SendWelcome(id);
  } else {
    if (Status status = CheckLimits(hello); !status.ok()) return TurnAway(stream, hello, status);
    if (facts_.SessionsOfRank(hello).size() >= options_.max_sessions_of_rank) {
      return TurnAway(
          stream, hello,
          ResourceExhausted(fmt::format(
              "{} sessions want to be {}, the limit: stop some of them, or retry in {:.0f} s",
              options_.max_sessions_of_rank, RankOfJob(hello), ToSeconds(options_.retry))));
    }
    const std::string key = PlanKey(hello.pipeline());
    if (!components_.plans.Request(key, hello.pipeline())) {
      return TurnAway(
          stream, hello,
          ResourceExhausted(fmt::format(
              "{} plans are in use or being compiled, the dispatcher's limit: retry in {:.0f} s",
              options_.max_plans, ToSeconds(options_.retry))));
    }
    const SessionId id = brought.is_set() ? brought : SessionId(transition_.NewNumber());
    transition_.Apply(SessionOpened{id, hello, key, stream, transition_.now()});
  }
  transition_.Mark(hello.job());
}

void Admission::TurnAway(StreamId stream, const v1::Hello& hello, const Status& why) {
  // A job's owner is not told who else asked for the job.
  const bool of_owner = why.code() != StatusCode::kPermissionDenied;
  transition_.Note(
      {.kind = EventKind::kConsumerRefused,
       .text = fmt::format("{} was refused: {}", ConsumerSubject(hello), why.message()),
       .job = of_owner ? hello.job() : "",
       .peer = hello.where()});
  transition_.Close(stream, why);
}

Status Admission::CheckOwner(StreamId stream, const std::string& job) const {
  const std::string& peer = facts_.FindStream(stream)->peer;
  const std::string owner = facts_.OwnerOf(job);
  if (peer.empty() || owner.empty() || peer == owner) {
    return OkStatus();
  }
  return PermissionDenied(fmt::format(
      "job {} belongs to {}, and this trainer is {}: give the job another name", job, owner, peer));
}

Status Admission::CheckLimits(const v1::Hello& hello) const {
  if (facts_.sessions().size() >= options_.max_sessions) {
    return ResourceExhausted(
        fmt::format("the dispatcher has {} consumers, its limit: retry in {:.0f} s",
                    options_.max_sessions, ToSeconds(options_.retry)));
  }
  if (facts_.job_count() >= options_.max_jobs && facts_.SessionsOf(hello.job()).empty()) {
    return ResourceExhausted(
        fmt::format("the dispatcher has {} jobs, its limit: end one with `millrace jobs end NAME`, "
                    "or retry in {:.0f} s",
                    options_.max_jobs, ToSeconds(options_.retry)));
  }
  return OkStatus();
}

bool Admission::Plan(SessionId id) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (session.plan) return true;
  const RequestedPlan& plan = *facts_.FindPlan(session.plan_key);
  switch (plan.phase) {
    case RequestedPlan::Phase::kCompiling:
      components_.sessions.Wait(
          id, plan.error.ok() ? "the plan is being compiled"
                              : "the plan is being compiled again: " + plan.error.message());
      return false;
    case RequestedPlan::Phase::kRetrying:
      components_.sessions.Wait(id, "the plan cannot be compiled yet: " + plan.error.message());
      return false;
    case RequestedPlan::Phase::kLacksColumns:
      components_.sessions.Wait(id, components_.columns.Why(plan.lacks));
      return false;
    case RequestedPlan::Phase::kAsking:
      components_.sessions.Wait(id, WhyAsked(plan, facts_.workers()));
      return false;
    case RequestedPlan::Phase::kReady:
      break;
  }
  Result<SessionPlan> fit =
      PlanForSession(session.hello, plan, KnownCanonical(session.hello.cursor_fingerprint()));
  if (!fit.ok()) {
    components_.sessions.Fail(id, fit.status(), EventKind::kPipelineRefused);
    return false;
  }
  transition_.Apply(SessionPlanned{id, *std::move(fit)});
  return true;
}

std::string_view Admission::KnownCanonical(const std::string& cursor) const {
  // Only the pipeline's half is compared. It stands for the options, even if the dataset has
  // changed.
  const Result<Fingerprint> wanted = Fingerprint::FromString(cursor);
  if (!wanted.ok()) return {};
  for (const auto& [name, record] : facts_.records()) {
    const Result<Fingerprint> kept = Fingerprint::FromString(record.fingerprint());
    if (kept.ok() && kept->pipeline == wanted->pipeline) return record.canonical_pipeline();
  }
  return {};
}

void Admission::Reconcile(const std::string& job) {
  const std::set<SessionId> ids = facts_.SessionsOf(job);
  std::vector<SessionId> waiting;
  for (const SessionId id : ids) {
    if (!facts_.FindSession(id)->live && Plan(id)) waiting.push_back(id);
  }
  for (const SessionId id : waiting) {
    const SessionFacts* session = facts_.FindSession(id);
    if (session != nullptr && !session->live) ReconcileSession(id);
  }
  if (facts_.SessionsOf(job).empty()) {
    components_.records.WriteEnd(job);
    return;
  }
  // A job that came back from an earlier term may lack its record.
  const std::set<SessionId>& live = facts_.LiveSessionsOf(job);
  if (live.empty()) return;
  const SessionFacts& session = *facts_.FindSession(*live.begin());
  if (!components_.records.IsOnDisk(session)) components_.records.Write(session);
}

void Admission::ReconcileSession(SessionId id) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (const SessionFacts* rival = HigherRival(session))
    return components_.sessions.Fail(id, TakenOver(session, *rival), EventKind::kConsumerReplaced);

  if (const SessionFacts* holder = Holder(session)) {
    if (!session.held_up) transition_.Apply(SessionHeldUp{id, transition_.now()});
    const std::string why = Holds(*holder, session);
    if (transition_.now() - *session.held_up < options_.attach_timeout)
      return components_.sessions.Wait(id, why);
    return components_.sessions.Fail(
        id,
        FailedPrecondition(fmt::format(
            "{}; {} at {} waited {:.0f} s for it: stop the other trainer, or end it with "
            "`millrace jobs end {}`",
            why, RankOfJob(session.hello), session.hello.where(),
            ToSeconds(options_.attach_timeout), session.hello.job())),
        EventKind::kConsumerRefused);
  }
  if (session.held_up) transition_.Apply(SessionHeldUp{id, std::nullopt});

  // A running job needs no store. A job that begins does, even if it begins in the place of
  // another.
  if (session.live_before || OthersLive(session) || components_.records.IsOnDisk(session) ||
      IsMutant(Mutant::kWelcomeBeforeCommit)) {
    return Welcome(id);
  }
  components_.sessions.Wait(id, components_.records.Write(session));
}

void Admission::Tick() {
  for (const auto& [id, session] : facts_.sessions()) {
    if (!session.live) transition_.Mark(session.hello.job());
  }
}

bool Admission::OthersLive(const SessionFacts& session) const {
  const auto& ids = facts_.LiveSessionsOf(session.hello.job());
  return std::any_of(ids.begin(), ids.end(),
                     [&](SessionId id) { return !SameRank(session, *facts_.FindSession(id)); });
}

const SessionFacts* Admission::HigherRival(const SessionFacts& session) const {
  for (const SessionId id : facts_.SessionsOfRank(session.hello)) {
    const SessionFacts& other = *facts_.FindSession(id);
    if (IsMutant(Mutant::kLaterArrivalWins)) continue;
    if (session.id < id && Compatible(session, other)) return &other;
  }
  return nullptr;
}

const SessionFacts* Admission::Holder(const SessionFacts& session) const {
  for (const SessionId id : facts_.LiveSessionsOf(session.hello.job())) {
    const SessionFacts& other = *facts_.FindSession(id);
    if (!Compatible(session, other)) return &other;
  }
  return nullptr;
}

void Admission::Welcome(SessionId id) {
  const SessionFacts& session = *facts_.FindSession(id);
  const std::set<SessionId> ids = facts_.SessionsOfRank(session.hello);
  for (const SessionId other_id : ids) {
    const SessionFacts& other = *facts_.FindSession(other_id);
    const bool lower = other_id < id || (IsMutant(Mutant::kLaterArrivalWins) && other_id != id);
    if (lower && Compatible(session, other)) {
      components_.sessions.Fail(other_id, TakenOver(other, session), EventKind::kConsumerReplaced);
    }
  }
  NoteWelcome(session);
  transition_.Apply(SessionAdmitted{id, transition_.now()});
  transition_.Log(LogLevel::kInfo, "session admitted",
                  {{"session", id.ToString()},
                   {"who", RankOfJob(session.hello)},
                   {"where", session.hello.where()},
                   {"start", session.plan->start.ToString()}});
  components_.sessions.SendWelcome(id);
  if (session.early_report) {
    const v1::Report report = *session.early_report;
    components_.reports.Hear(id, report);
  }
}

void Admission::NoteWelcome(const SessionFacts& session) {
  const v1::Hello& hello = session.hello;
  if (!session.live_before && facts_.LiveSessionsOf(hello.job()).empty()) {
    // Events of an earlier job of this name may be somebody else's.
    if (!session.owner.empty()) transition_.DetachEvents(hello.job());
    transition_.Note({.kind = EventKind::kJobBegan,
                      .text = fmt::format("Job {}{} began with world size {}, at {}", hello.job(),
                                          session.owner.empty() ? "" : " of " + session.owner,
                                          hello.world_size(), session.plan->start.ToString()),
                      .job = hello.job()});
  }
  if (!session.live_before && hello.cursor_fingerprint().empty()) return;
  transition_.Note({.kind = EventKind::kConsumerResumed,
                    .text = session.live_before
                                ? ConsumerSubject(hello) + " came back to this dispatcher"
                                : fmt::format("{} resumed at {}", ConsumerSubject(hello),
                                              session.plan->start.ToString()),
                    .job = hello.job(),
                    .peer = hello.where()});
}

}  // namespace millrace
