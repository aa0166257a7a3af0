#include "server/dispatcher/machine/job_end.h"

#include <algorithm>
#include <utility>

#include "common/base/utf8.h"

namespace millrace {
namespace {

constexpr std::size_t kMostWhyBytes = 512;

/// Whether the loop stands behind the last step of an epoch. The place there is the next epoch's
/// first.
bool HasReadToEnd(const SessionFacts& session) {
  const Position next = session.next();
  return next.example == 0 && next > session.plan->start;
}

bool HasAllItWants(const SessionFacts& session) {
  if (!session.plan || !HasReadToEnd(session)) return false;
  return session.hello.epochs() == 0 || session.next().epoch >= session.end_epoch();
}

void SetPlace(const SessionFacts& session, v1::JobEnd& end) {
  const StepArithmetic& steps = session.plan->steps;
  const Position next = session.next();
  ToProto(next, end.mutable_next());
  end.set_steps_per_epoch(steps.StepsFrom(0));
  const bool whole = HasReadToEnd(session);
  end.set_step(whole ? end.steps_per_epoch() : steps.Step(next));
  end.set_progress(whole ? 1 : DoneBefore(steps, next));
}

}  // namespace

v1::JobEnd EndOf(const SessionFacts& session, v1::JobOutcome outcome, std::string why) {
  v1::JobEnd end;
  end.set_outcome(outcome);
  why.resize(std::min(why.size(), why.find('\n')));
  CutUtf8(why, kMostWhyBytes);
  end.set_why(std::move(why));
  if (session.plan) SetPlace(session, end);
  return end;
}

v1::JobEnd EndByBye(const SessionFacts& session, const std::string& error) {
  const std::string rank = RankOfJob(session.hello);
  if (!error.empty()) return EndOf(session, v1::JOB_FAILED, rank + ": " + error);
  if (HasAllItWants(session)) return EndOf(session, v1::JOB_COMPLETED);
  return EndOf(session, v1::JOB_LEFT, rank + " was closed by its user before the end");
}

v1::JobEnd EndOfJob(const std::map<std::string, v1::JobEnd>& ranks) {
  const v1::JobEnd* worst = nullptr;
  const v1::JobEnd* slowest = nullptr;
  for (const auto& [rank, end] : ranks) {
    if (worst == nullptr || end.outcome() > worst->outcome()) worst = &end;
    if (!end.has_next()) continue;
    if (slowest == nullptr || FromProto(end.next()) < FromProto(slowest->next())) slowest = &end;
  }
  v1::JobEnd job;
  if (slowest != nullptr) job = *slowest;
  job.set_outcome(worst == nullptr ? v1::JOB_OUTCOME_UNSPECIFIED : worst->outcome());
  job.set_who(worst == nullptr ? "" : worst->who());
  job.set_why(worst == nullptr ? "" : worst->why());
  return job;
}

std::string_view OutcomeName(v1::JobOutcome outcome) {
  switch (outcome) {
    case v1::JOB_COMPLETED:
      return "completed";
    case v1::JOB_LEFT:
      return "left";
    case v1::JOB_LOST:
      return "lost";
    case v1::JOB_FAILED:
      return "failed";
    case v1::JOB_STOPPED:
      return "stopped";
    default:
      return {};
  }
}

double DoneBefore(const StepArithmetic& steps, Position place) {
  const std::uint64_t left = steps.StepsFrom(place.example);
  const std::uint64_t whole = steps.Step(place) + left;
  return whole == 0 ? 0 : 1 - static_cast<double>(left) / static_cast<double>(whole);
}

}  // namespace millrace
