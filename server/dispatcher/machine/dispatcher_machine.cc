#include "server/dispatcher/machine/dispatcher_machine.h"

#include <algorithm>

#include <fmt/core.h>

#include "common/base/mutant.h"
#include "server/dispatcher/machine/hello_check.h"
#include "server/dispatcher/machine/worker_choice.h"

namespace millrace {
namespace {

/// A year. No clock of a dispatcher can have given a term further ahead: a damaged or hostile
/// message.
constexpr std::uint64_t kTermsAhead = 366 * 86'400;

/// The code that a consumer acts on: it ends at ABORTED and FAILED_PRECONDITION and tries again
/// after everything else, so an error that no second try can cure must not come as something else.
Status ForConsumer(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnimplemented:
    case StatusCode::kInternal:
    case StatusCode::kUnknown:
      return FailedPrecondition(status.message());
    default:
      return status;
  }
}

}  // namespace

void MergeInto(v1::AttachResponse& waiting, v1::AttachResponse&& later) {
  // A Welcome is the whole truth, and ends a wait.
  if (later.has_welcome()) {
    waiting.clear_welcome();
    waiting.clear_waiting();
  }
  waiting.MergeFrom(std::move(later));
}

DispatcherMachine::DispatcherMachine(const DispatcherOptions& options, std::uint64_t term,
                                     std::vector<v1::JobRecord> records, Moment now,
                                     std::function<void(const Update&)> watch)
    : options_(options), watch_(std::move(watch)), random_(options.seed + term), now_(now) {
  next_pulse_ = now.time + options_.pulse;
  // Workers drop the plans that they are not told to keep: those of jobs that may still run come
  // first.
  std::vector<v1::PipelineText> running;
  for (const auto& record : records) {
    if (!record.ended()) running.push_back(record.pipeline());
  }
  Apply(TermBegun{term, now.time, std::move(records)});
  for (const auto& pipeline : running) RequestPlan(PlanKey(pipeline), pipeline);
}

// --- Frame

void DispatcherMachine::Begin(Moment now) {
  // A gap between events is our own pause: nobody could be heard meanwhile.
  const Duration late = now.time - now_.time - options_.tick;
  if (late > options_.late_tick) {
    Log(LogLevel::kWarning, "paused", {{"seconds", fmt::format("{:.1f}", ToSeconds(late))}});
    Apply(TimeGranted{late});
  }
  now_.unix_seconds = now.unix_seconds;
  now_.time = std::max(now_.time, now.time);
}

Actions DispatcherMachine::End() {
  while (!unsettled_.empty() && stepped_down_.ok()) {
    const std::string job = *unsettled_.begin();
    unsettled_.erase(unsettled_.begin());
    Settle(job);
  }
  if (plans_changed_ && stepped_down_.ok()) {
    plans_changed_ = false;
    RespondAll();
  }
  return std::exchange(actions_, {});
}

void DispatcherMachine::Apply(const Update& update) {
  if (watch_) watch_(update);
  worker_sets_.WillApply(update, facts_.workers(), now_.time, options_);
  facts_.Apply(update);
}

Number DispatcherMachine::NewNumber() {
  Apply(NumberIssued{});
  return facts_.last_number();
}

void DispatcherMachine::Log(LogLevel level, std::string event,
                            std::vector<std::pair<std::string, std::string>> fields) {
  actions_.push_back(LogEvent{level, std::move(event), std::move(fields)});
}

void DispatcherMachine::Close(StreamId stream, const Status& status) {
  const StreamFacts* facts = facts_.FindStream(stream);
  if (facts == nullptr) return;
  actions_.push_back(CloseStream{stream, facts->of_worker ? status : ForConsumer(status)});
  Apply(StreamForgotten{stream});
}

bool DispatcherMachine::Outranked(StreamId stream, const std::string& who, std::uint64_t seen) {
  if (seen <= facts_.term() || IsMutant(Mutant::kLowerTermObeyed)) return false;
  // By the clock alone: a bound that moved with the term could be pushed on and on.
  const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(now_.unix_seconds, 0));
  if (seen > now + kTermsAhead) {
    Close(stream, FailedPrecondition(fmt::format(
                      "{} has seen term {}, which cannot be: terms are seconds, this dispatcher's "
                      "is {} and its clock says {}; set the clock, or start {} again",
                      who, seen, facts_.term(), now, who)));
  } else {
    StepDown(fmt::format("{} has seen term {}", who, seen), seen);
  }
  return true;
}

bool DispatcherMachine::ForeignNumber(const std::string& who, Number brought) {
  if (brought.term != facts_.term() || brought <= facts_.last_number()) return false;
  StepDown(fmt::format("{} has the number {}, which another dispatcher of this term has issued",
                       who, brought.ToString()),
           brought.term);
  return true;
}

void DispatcherMachine::StepDown(const std::string& why, std::uint64_t seen) {
  if (!stepped_down_.ok()) return;
  stepped_down_ = Unavailable(
      fmt::format("this dispatcher's term {} is over: {}; connect again", facts_.term(), why));
  seen_term_ = seen;
  while (!facts_.streams().empty()) Close(facts_.streams().begin()->first, stepped_down_);
}

// --- Events

Actions DispatcherMachine::OnDataset(const std::string& id, const v1::DatasetState& dataset,
                                     Moment now) {
  Begin(now);
  Apply(DatasetOpened{id, dataset});
  plans_changed_ = true;  // workers are asked for the file lists of other digests
  ForgetOlderPlans(id, dataset.digest());
  // What could not be compiled may have waited for it.
  std::vector<std::pair<std::string, v1::PipelineText>> again;
  for (const auto& [key, plan] : facts_.plans()) {
    if (plan.phase == RequestedPlan::Phase::kRetrying) again.emplace_back(key, plan.pipeline);
  }
  for (auto& [key, pipeline] : again) {
    Apply(PlanRequested{key, pipeline, now_.time});
    actions_.push_back(CompilePlan{key, std::move(pipeline)});
  }
  return End();
}

void DispatcherMachine::ForgetOlderPlans(const std::string& dataset, const std::string& digest) {
  std::set<std::string> used;
  for (const auto& [id, session] : facts_.sessions()) used.insert(session.plan_key);
  std::vector<std::string> older;
  for (const auto& [key, plan] : facts_.plans()) {
    if (plan.phase != RequestedPlan::Phase::kReady || used.contains(key)) continue;
    if (plan.facts->dataset() != dataset) continue;
    if (plan.facts->fingerprint().dataset.ToHex() != digest) older.push_back(key);
  }
  for (const std::string& key : older) Apply(PlanForgotten{key});
}

Actions DispatcherMachine::OnStreamOpened(StreamId stream, bool of_worker, Moment now) {
  Begin(now);
  if (!stepped_down_.ok()) {
    actions_.push_back(CloseStream{stream, stepped_down_});
  } else if (facts_.streams().size() >= options_.max_streams) {
    actions_.push_back(CloseStream{
        stream, ResourceExhausted(fmt::format("the dispatcher has {} streams, its limit: retry in "
                                              "{:.0f} s",
                                              options_.max_streams, ToSeconds(options_.retry)))});
  } else {
    Apply(StreamOpened{stream, of_worker, now_.time});
  }
  return End();
}

Actions DispatcherMachine::OnStreamClosed(StreamId stream, Moment now) {
  Begin(now);
  Apply(StreamForgotten{stream});
  return End();
}

Actions DispatcherMachine::OnAttach(StreamId stream, v1::AttachRequest request, Moment now) {
  Begin(now);
  const StreamFacts* facts = facts_.FindStream(stream);
  if (facts == nullptr || facts->of_worker) return End();
  if (!facts->owner.is_set()) {
    if (request.has_hello()) {
      Greet(stream, request.hello());
    } else {
      Close(stream, InvalidArgument("the first message of an Attach stream has no hello"));
    }
    facts = facts_.FindStream(stream);
    if (facts == nullptr) return End();
  }
  const Number id = facts->owner;
  const SessionFacts* session = facts_.FindSession(id);
  if (session == nullptr) return End();
  if (request.has_hello() && request.hello().nonce() != session->hello.nonce()) {
    Close(stream, InvalidArgument(fmt::format(
                      "a second hello on the stream of session {}: open a stream a session",
                      id.ToString())));
    return End();
  }
  Apply(SessionHeard{id, now_.time});
  if (request.has_report()) Hear(id, std::move(*request.mutable_report()));
  if (request.bye() && facts_.FindSession(id) != nullptr) {
    Log(LogLevel::kInfo, "session ended", {{"session", id.ToString()}, {"why", "bye"}});
    EndSession(id);
    Close(stream, OkStatus());
  }
  return End();
}

Actions DispatcherMachine::OnTick(Moment now) {
  Begin(now);
  if (!stepped_down_.ok()) return End();

  std::vector<StreamId> mute;
  for (const auto& [id, stream] : facts_.streams()) {
    if (!stream.owner.is_set() && now_.time - stream.opened >= options_.hello_timeout) {
      mute.push_back(id);
    }
  }
  for (const StreamId id : mute) {
    Close(id, Unavailable(
                  fmt::format("no first message for {:.0f} s", ToSeconds(options_.hello_timeout))));
  }

  std::vector<Number> silent;
  for (const auto& [id, session] : facts_.sessions()) {
    if (!session.live) unsettled_.insert(session.hello.job());
    if (now_.time - session.heard >= options_.session_timeout) silent.push_back(id);
  }
  for (const Number id : silent) {
    Fail(id, Unavailable(fmt::format("session {} was silent for {:.0f} s and has ended",
                                     id.ToString(), ToSeconds(options_.session_timeout))));
  }

  std::vector<Number> lost;
  for (const auto& [id, worker] : facts_.workers()) {
    if (now_.time - worker.heard >= options_.worker_timeout) lost.push_back(id);
  }
  for (const Number id : lost) DropWorker(id);

  for (const auto& [job, write] : facts_.writes()) {
    if (!write.outstanding && now_.time >= write.retry_at) unsettled_.insert(job);
  }
  if (!booted_jobs_checked_ && now_.time - facts_.booted() >= options_.session_timeout) {
    booted_jobs_checked_ = true;
    for (const auto& [job, record] : facts_.records()) {
      if (!record.ended()) unsettled_.insert(job);
    }
  }
  if (now_.time >= next_pulse_) {
    next_pulse_ = now_.time + options_.pulse;
    TendPlans();
    Pulse();
  }
  return End();
}

void DispatcherMachine::Pulse() {
  for (const auto& [id, session] : facts_.sessions()) {
    if (session.stream == 0) continue;
    v1::AttachResponse pulse;
    pulse.set_term(facts_.term());
    actions_.push_back(SendAttach{session.stream, std::move(pulse)});
  }
  for (const auto& [id, worker] : facts_.workers()) {
    if (worker.stream == 0) continue;
    v1::WorkResponse response = ResponseTo(worker);
    if (SaysNothingNew(worker, response)) {
      response.Clear();
      response.set_term(facts_.term());
    }
    actions_.push_back(SendWork{worker.stream, std::move(response)});
  }
}

}  // namespace millrace
