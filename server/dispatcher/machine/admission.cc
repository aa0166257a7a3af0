// From Hello to Welcome: recognising sessions, their plans, rivals and holders.
#include <algorithm>

#include <fmt/core.h>

#include "common/base/mutant.h"
#include "server/dispatcher/machine/dispatcher_machine.h"
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

void DispatcherMachine::Greet(StreamId stream, const v1::Hello& hello) {
  if (Status status = CheckHello(hello, options_); !status.ok()) return Close(stream, status);

  Number brought = FromProto(hello.session());
  const std::uint64_t seen = std::max<std::uint64_t>(hello.highest_term(), brought.term);
  if (Outranked(stream, hello.where(), seen) || ForeignNumber(hello.where(), brought)) return;

  const SessionFacts* known =
      brought.is_set() ? facts_.FindSession(brought) : facts_.FindSessionByNonce(hello.nonce());
  if (known != nullptr && known->hello.nonce() != hello.nonce()) {
    // Two dispatchers took one term (see ForeignNumber) and both issued this number.
    brought = {};
    known = facts_.FindSessionByNonce(hello.nonce());
  }
  // A first message that comes again makes nobody younger.
  if (known == nullptr && !brought.is_set()) brought = facts_.EndedNumber(hello.nonce());
  if (brought.is_set() && brought <= facts_.TurnedOut(hello.job())) {
    return Close(stream, Aborted(fmt::format("job {} was ended by an operator", hello.job())));
  }

  if (known != nullptr) {
    if (Status status = CheckSameSession(*known, hello); !status.ok()) return Close(stream, status);
    const Number id = known->id;
    Close(known->stream, Cancelled("the session has opened a newer stream"));
    Apply(SessionAttached{id, hello, stream, now_.time});
    if (known->live) SendWelcome(id);
  } else {
    if (Status status = CheckLimits(hello); !status.ok()) return Close(stream, status);
    if (facts_.SessionsOfRank(hello).size() >= options_.max_sessions_of_rank) {
      return Close(
          stream, ResourceExhausted(fmt::format(
                      "{} sessions want to be {}, the limit: stop some of them, or retry in "
                      "{:.0f} s",
                      options_.max_sessions_of_rank, RankOfJob(hello), ToSeconds(options_.retry))));
    }
    const std::string key = PlanKey(hello.pipeline());
    if (!RequestPlan(key, hello.pipeline())) {
      return Close(stream,
                   ResourceExhausted(fmt::format(
                       "{} plans are in use or being compiled, the dispatcher's limit: retry "
                       "in {:.0f} s",
                       options_.max_plans, ToSeconds(options_.retry))));
    }
    const Number id = brought.is_set() ? brought : NewNumber();
    Apply(SessionOpened{id, hello, key, stream, now_.time});
  }
  unsettled_.insert(hello.job());
}

Status DispatcherMachine::CheckLimits(const v1::Hello& hello) const {
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

// --- Plans

bool DispatcherMachine::RequestPlan(const std::string& key, const v1::PipelineText& pipeline) {
  if (facts_.FindPlan(key) != nullptr) return true;
  if (facts_.plans().size() >= options_.max_plans) {
    std::set<std::string> used;
    for (const auto& [id, session] : facts_.sessions()) used.insert(session.plan_key);
    const RequestedPlan* oldest = nullptr;
    for (const auto& [k, plan] : facts_.plans()) {
      if (used.contains(k) || plan.phase == RequestedPlan::Phase::kCompiling) continue;
      if (oldest == nullptr || plan.used < oldest->used) oldest = &plan;
    }
    if (oldest == nullptr) return false;
    Apply(PlanForgotten{std::string(oldest->key)});
    plans_changed_ = true;
  }
  Apply(PlanRequested{key, pipeline, now_.time});
  actions_.push_back(CompilePlan{key, pipeline});
  return true;
}

Actions DispatcherMachine::OnPlanCompiled(const std::string& key,
                                          Result<std::shared_ptr<const PlanFacts>> plan,
                                          Moment now) {
  Begin(now);
  if (facts_.FindPlan(key) == nullptr) return End();
  std::vector<Number> asking;
  for (const auto& [id, session] : facts_.sessions()) {
    if (session.plan_key != key) continue;
    asking.push_back(id);
    unsettled_.insert(session.hello.job());
  }
  if (plan.ok()) {
    Apply(PlanReady{key, *plan, now_.time});
    plans_changed_ = true;
    Log(LogLevel::kInfo, "plan ready", {{"fingerprint", (*plan)->fingerprint().ToString()}});
  } else if (plan.status().code() == StatusCode::kUnavailable ||
             plan.status().code() == StatusCode::kResourceExhausted) {
    Apply(PlanPutOff{key, plan.status(), now_.time + options_.retry});
  } else {
    Log(LogLevel::kWarning, "plan refused", {{"why", plan.status().message()}});
    Apply(PlanForgotten{key});
    for (const Number id : asking) Fail(id, plan.status());
  }
  return End();
}

void DispatcherMachine::TendPlans() {
  std::set<std::string> used;
  for (const auto& [id, session] : facts_.sessions()) used.insert(session.plan_key);
  std::vector<std::string> over;
  std::vector<std::string> again;
  for (const auto& [key, plan] : facts_.plans()) {
    const bool kept = used.contains(key) || now_.time - plan.used < options_.plan_linger;
    if (plan.phase == RequestedPlan::Phase::kCompiling) continue;
    if (!kept) {
      over.push_back(key);
    } else if (plan.phase == RequestedPlan::Phase::kRetrying && now_.time >= plan.retry_at) {
      again.push_back(key);
    }
  }
  for (const auto& key : over) Apply(PlanForgotten{key});
  plans_changed_ |= !over.empty();
  for (const auto& key : again) {
    const v1::PipelineText pipeline = facts_.FindPlan(key)->pipeline;
    Apply(PlanRequested{key, pipeline, now_.time});
    actions_.push_back(CompilePlan{key, pipeline});
  }
}

bool DispatcherMachine::PlanSession(Number id) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (session.plan) return true;
  const RequestedPlan& plan = *facts_.FindPlan(session.plan_key);
  switch (plan.phase) {
    case RequestedPlan::Phase::kCompiling:
      Wait(id, plan.error.ok() ? "the plan is being compiled"
                               : "the plan is being compiled again: " + plan.error.message());
      return false;
    case RequestedPlan::Phase::kRetrying:
      Wait(id, "the plan cannot be compiled yet: " + plan.error.message());
      return false;
    case RequestedPlan::Phase::kReady:
      break;
  }
  Result<SessionPlan> fit =
      PlanForSession(session.hello, plan, KnownCanonical(session.hello.cursor_fingerprint()));
  if (!fit.ok()) {
    Fail(id, fit.status());
    return false;
  }
  Apply(SessionPlanned{id, *std::move(fit)});
  return true;
}

std::string_view DispatcherMachine::KnownCanonical(const std::string& cursor) const {
  // By the pipeline's half: it names the options, whatever became of the dataset.
  const Result<Fingerprint> wanted = Fingerprint::FromString(cursor);
  if (!wanted.ok()) return {};
  for (const auto& [name, record] : facts_.records()) {
    const Result<Fingerprint> kept = Fingerprint::FromString(record.fingerprint());
    if (kept.ok() && kept->pipeline == wanted->pipeline) return record.canonical_pipeline();
  }
  return {};
}

// --- Settling

void DispatcherMachine::Settle(const std::string& job) {
  const std::set<Number> ids = facts_.SessionsOf(job);
  std::vector<Number> waiting;
  for (const Number id : ids) {
    if (!facts_.FindSession(id)->live && PlanSession(id)) waiting.push_back(id);
  }
  for (const Number id : waiting) {
    const SessionFacts* session = facts_.FindSession(id);
    if (session != nullptr && !session->live) SettleSession(id);
  }
  if (facts_.SessionsOf(job).empty()) {
    WriteEnd(job);
    return;
  }
  // A job that came back from an earlier term may lack its record.
  const std::set<Number>& live = facts_.LiveSessionsOf(job);
  if (live.empty()) return;
  const SessionFacts& session = *facts_.FindSession(*live.begin());
  if (!RecordOnDisk(session)) WriteRecord(session);
}

void DispatcherMachine::SettleSession(Number id) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (const SessionFacts* rival = HigherRival(session)) return Fail(id, TakenOver(session, *rival));

  if (const SessionFacts* holder = Holder(session)) {
    if (!session.held_up) Apply(SessionHeldUp{id, now_.time});
    const std::string why = Holds(*holder, session);
    if (now_.time - *session.held_up < options_.attach_timeout) return Wait(id, why);
    return Fail(id,
                FailedPrecondition(fmt::format(
                    "{}; {} at {} waited {:.0f} s for it: stop the other trainer, or end it with "
                    "`millrace jobs end {}`",
                    why, RankOfJob(session.hello), session.hello.where(),
                    ToSeconds(options_.attach_timeout), session.hello.job())));
  }
  if (session.held_up) Apply(SessionHeldUp{id, std::nullopt});

  // A running job needs no store; one that begins does, also where it begins in another's place.
  if (session.live_before || OthersLive(session) || RecordOnDisk(session) ||
      IsMutant(Mutant::kWelcomeBeforeCommit)) {
    return Welcome(id);
  }
  Wait(id, WriteRecord(session));
}

bool DispatcherMachine::OthersLive(const SessionFacts& session) const {
  const auto& ids = facts_.LiveSessionsOf(session.hello.job());
  return std::any_of(ids.begin(), ids.end(),
                     [&](Number id) { return !SameRank(session, *facts_.FindSession(id)); });
}

const SessionFacts* DispatcherMachine::HigherRival(const SessionFacts& session) const {
  for (const Number id : facts_.SessionsOfRank(session.hello)) {
    const SessionFacts& other = *facts_.FindSession(id);
    if (IsMutant(Mutant::kLaterArrivalWins)) continue;
    if (session.id < id && Compatible(session, other)) return &other;
  }
  return nullptr;
}

const SessionFacts* DispatcherMachine::Holder(const SessionFacts& session) const {
  for (const Number id : facts_.LiveSessionsOf(session.hello.job())) {
    const SessionFacts& other = *facts_.FindSession(id);
    if (!Compatible(session, other)) return &other;
  }
  return nullptr;
}

void DispatcherMachine::Welcome(Number id) {
  const SessionFacts& session = *facts_.FindSession(id);
  const std::set<Number> ids = facts_.SessionsOfRank(session.hello);
  for (const Number other_id : ids) {
    const SessionFacts& other = *facts_.FindSession(other_id);
    const bool lower = other_id < id || (IsMutant(Mutant::kLaterArrivalWins) && other_id != id);
    if (lower && Compatible(session, other)) {
      Fail(other_id, TakenOver(other, session));
    }
  }
  Apply(SessionAdmitted{id, now_.time});
  Log(LogLevel::kInfo, "session admitted",
      {{"session", id.ToString()},
       {"who", RankOfJob(session.hello)},
       {"where", session.hello.where()},
       {"start", session.plan->start.ToString()}});
  SendWelcome(id);
  if (session.early_report) {
    const v1::Report report = *session.early_report;
    Hear(id, report);
  }
}

void DispatcherMachine::SendWelcome(Number id) {
  const SessionFacts& session = *facts_.FindSession(id);
  v1::AttachResponse response;
  response.set_term(facts_.term());
  v1::Welcome& welcome = *response.mutable_welcome();
  ToProto(id, welcome.mutable_session());
  welcome.set_fingerprint(session.plan->fingerprint);
  ToProto(session.plan->start, welcome.mutable_start());
  *welcome.mutable_spec() = session.plan->spec;
  welcome.set_static_digest(session.plan->facts->static_digest());
  AddWorkers(session, welcome);
  if (session.stream != 0) actions_.push_back(SendAttach{session.stream, std::move(response)});
}

void DispatcherMachine::Wait(Number id, const std::string& why) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (session.why == why) return;
  Apply(SessionTold{id, why});
  if (session.stream == 0) return;
  v1::AttachResponse response;
  response.set_term(facts_.term());
  if (!IsMutant(Mutant::kNumberOnAdmission)) {
    ToProto(id, response.mutable_waiting()->mutable_session());
  }
  response.mutable_waiting()->set_why(why);
  actions_.push_back(SendAttach{session.stream, std::move(response)});
}

void DispatcherMachine::Fail(Number id, const Status& status) {
  const SessionFacts& session = *facts_.FindSession(id);
  Log(LogLevel::kWarning, "session ended",
      {{"session", id.ToString()},
       {"who", RankOfJob(session.hello)},
       {"where", session.hello.where()},
       {"why", status.message()}});
  Close(session.stream, status);
  EndSession(id);
}

void DispatcherMachine::EndSession(Number id) {
  unsettled_.insert(facts_.FindSession(id)->hello.job());
  Apply(SessionEnded{id});
}

}  // namespace millrace
