#include "server/dispatcher/machine/sessions.h"

#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/mutant.h"
#include "server/dispatcher/machine/event_texts.h"
#include "server/dispatcher/machine/job_end.h"

namespace millrace {
namespace {

/// The words of an event for a consumer that is closed; the reason follows.
std::string_view FateOf(EventKind kind) {
  switch (kind) {
    case EventKind::kConsumerLost:
      return "is lost";
    case EventKind::kConsumerReplaced:
      return "was replaced";
    case EventKind::kConsumerRefused:
      return "was refused";
    case EventKind::kPipelineRefused:
      return "has a pipeline or cursor that was refused";
    default:
      return "was closed with an error";
  }
}

}  // namespace

void Sessions::SendWelcome(SessionId id) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (session.stream == 0) return;
  v1::AttachResponse response;
  response.set_term(facts_.term());
  v1::Welcome& welcome = *response.mutable_welcome();
  ToProto(id, welcome.mutable_session());
  welcome.set_fingerprint(session.plan->fingerprint);
  ToProto(session.plan->start, welcome.mutable_start());
  *welcome.mutable_spec() = session.plan->spec;
  welcome.set_static_digest(session.plan->facts->static_digest());
  lists_.AddTo(id, response);
  transition_.Do(SendAttach{session.stream, std::move(response)});
}

void Sessions::Wait(SessionId id, const std::string& why) {
  const SessionFacts& session = *facts_.FindSession(id);
  if (session.why == why) return;
  transition_.Apply(SessionTold{id, why});
  if (session.stream == 0) return;
  v1::AttachResponse response;
  response.set_term(facts_.term());
  if (!IsMutant(Mutant::kNumberOnAdmission)) {
    ToProto(id, response.mutable_waiting()->mutable_session());
  }
  response.mutable_waiting()->set_why(why);
  transition_.Do(SendAttach{session.stream, std::move(response)});
}

void Sessions::Fail(SessionId id, const Status& status, EventKind kind) {
  const v1::Hello& hello = facts_.FindSession(id)->hello;
  transition_.Note(
      {.kind = kind,
       .text = fmt::format("{} {}: {}", ConsumerSubject(hello), FateOf(kind), status.message()),
       .job = hello.job(),
       .peer = hello.where()});
  const bool away = kind == EventKind::kConsumerLost || kind == EventKind::kConsumerReplaced;
  Close(id, status,
        EndOf(*facts_.FindSession(id), away ? v1::JOB_LOST : v1::JOB_FAILED, status.message()));
}

void Sessions::Close(SessionId id, const Status& status, v1::JobEnd end) {
  const SessionFacts& session = *facts_.FindSession(id);
  transition_.Log(LogLevel::kWarning, "session ended",
                  {{"session", id.ToString()},
                   {"who", RankOfJob(session.hello)},
                   {"where", session.hello.where()},
                   {"why", status.message()}});
  transition_.Close(session.stream, status);
  End(id, std::move(end));
}

void Sessions::FailJob(SessionId id, const Status& status) {
  // All ranks of the job end: they go from step to step together, and share one plan.
  const std::string job = facts_.FindSession(id)->hello.job();
  transition_.Note({.kind = EventKind::kJobFailed,
                    .text = fmt::format("Job {} ended with an error: {}", job, status.message()),
                    .job = job});
  const std::set<SessionId> ids = facts_.LiveSessionsOf(job);
  for (const SessionId each : ids) {
    Close(each, status, EndOf(*facts_.FindSession(each), v1::JOB_FAILED, status.message()));
  }
}

void Sessions::End(SessionId id, v1::JobEnd end) {
  transition_.Mark(facts_.FindSession(id)->hello.job());
  transition_.Apply(SessionEnded{id, std::move(end)});
}

void Sessions::Leave(SessionId id, StreamId stream, const std::string& error) {
  const SessionFacts& session = *facts_.FindSession(id);
  v1::JobEnd end = EndByBye(session, error);
  transition_.Log(LogLevel::kInfo, "session ended",
                  {{"session", id.ToString()}, {"why", error.empty() ? "bye" : end.why()}});
  if (!error.empty()) {
    transition_.Note(
        {.kind = EventKind::kConsumerFailed,
         .text = fmt::format("{} ended with an error: {}", ConsumerSubject(session.hello), error),
         .job = session.hello.job(),
         .peer = session.hello.where()});
  }
  End(id, std::move(end));
  transition_.Close(stream, OkStatus());
}

Result<v1::EndJobResponse> Sessions::TurnOut(const std::string& job,
                                             const std::optional<std::string>& owner,
                                             const std::string& who) {
  const std::set<SessionId> ids = facts_.SessionsOf(job);
  if (ids.empty()) {
    std::set<std::string> jobs;
    for (const auto& [id, session] : facts_.sessions()) {
      if (!owner || facts_.OwnerOf(session.hello.job()) == *owner) jobs.insert(session.hello.job());
    }
    return NotFound(fmt::format("no job '{}' has a session: jobs are {}", job,
                                jobs.empty() ? "none" : fmt::format("{}", fmt::join(jobs, ", "))));
  }
  if (owner && facts_.OwnerOf(job) != *owner) {
    return PermissionDenied(
        fmt::format("job {} is not one that {} began: only an operator may end it", job, *owner));
  }
  const std::string name = owner ? *owner : who;
  const std::string by = name.empty() ? "an operator" : name;
  transition_.Apply(JobTurnedOut{job, facts_.last_number()});
  transition_.Note(
      {.kind = EventKind::kJobTurnedOut,
       .text = fmt::format("Job {} was ended by {}, with {} sessions", job, by, ids.size()),
       .job = job});
  for (const SessionId id : ids) {
    v1::JobEnd end = EndOf(*facts_.FindSession(id), v1::JOB_STOPPED);
    end.set_who(name.empty() ? "operator" : name);
    Close(id, Aborted(fmt::format("job {} was ended by {}", job, by)), std::move(end));
  }
  v1::EndJobResponse response;
  response.set_sessions(static_cast<std::uint32_t>(ids.size()));
  return response;
}

void Sessions::Tick() {
  std::vector<SessionId> silent;
  for (const auto& [id, session] : facts_.sessions()) {
    if (transition_.now() - session.heard >= options_.session_timeout) silent.push_back(id);
  }
  for (const SessionId id : silent) {
    Fail(id,
         Unavailable(fmt::format("session {} was silent for {:.0f} s and has ended", id.ToString(),
                                 ToSeconds(options_.session_timeout))),
         EventKind::kConsumerLost);
  }
}

void Sessions::Heartbeat(const SessionFacts& session) {
  v1::AttachResponse heartbeat;
  heartbeat.set_term(facts_.term());
  transition_.Do(SendAttach{session.stream, std::move(heartbeat)});
}

}  // namespace millrace
