#include "server/dispatcher/machine/dispatcher_machine.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/base/mutant.h"
#include "server/dispatcher/machine/event_texts.h"
#include "server/dispatcher/machine/hello_check.h"

namespace millrace {
namespace {

/// A year, in seconds. No clock of a dispatcher can have given a term that is further ahead: such a
/// message is damaged or hostile.
constexpr std::uint64_t kTermsAhead = 366 * 86'400;

/// `records`: of all jobs that the store knows, of which `running` have not ended.
void NoteTerm(Transition& transition, std::uint64_t term, const std::vector<v1::JobRecord>& records,
              std::size_t running) {
  if (records.empty()) {
    transition.Note({.kind = EventKind::kDispatcherBegan,
                     .text = fmt::format("This dispatcher began, with term {}", term)});
    return;
  }
  transition.Note(
      {.kind = EventKind::kTookOver,
       .text = fmt::format("This dispatcher took over from an earlier one, with term {}; jobs that "
                           "had not ended: {}, and events before this are not known here",
                           term, running)});
}

}  // namespace

DispatcherMachine::DispatcherMachine(const DispatcherOptions& options, std::uint64_t term,
                                     std::vector<v1::JobRecord> records, Moment now,
                                     const std::function<void(const Update&)>& watch)
    : transition_(options, now,
                  [this, watch](const Update& update) {
                    if (watch) watch(update);
                    lists_.WillApply(update);
                  }),
      lists_(transition_),
      sessions_(transition_, lists_),
      columns_(transition_),
      plans_(transition_, sessions_, columns_),
      records_(transition_),
      reports_(transition_, sessions_, lists_),
      fleet_(transition_, columns_),
      admission_(transition_, {sessions_, plans_, columns_, records_, reports_}),
      desired_workers_(options.reserve),
      heartbeats_(now.time, options.heartbeat) {
  // Workers drop the plans that they are not told to keep. So the plans of jobs that may still run
  // are requested at once.
  std::vector<v1::PipelineText> running;
  for (const auto& record : records) {
    if (!record.ended()) running.push_back(record.pipeline());
  }
  NoteTerm(transition_, term, records, running.size());
  transition_.Apply(TermBegun{term, now.time, std::move(records)});
  for (const auto& pipeline : running) plans_.Request(PlanKey(pipeline), pipeline);
}

Actions DispatcherMachine::End() {
  if (stepped_down_.ok()) {
    // Settling a job may unsettle others.
    while (const auto job = transition_.TakeMarked()) admission_.Reconcile(*job);
    if (transition_.TakeTellWorkers()) fleet_.RespondAll();
    lists_.SendChanged();
  }
  return transition_.TakeActions();
}

// --- Events of the host

Actions DispatcherMachine::OnDataset(const std::string& id, const v1::DatasetState& dataset,
                                     Moment now) {
  transition_.Begin(now);
  const auto before = facts().datasets().find(id);
  const bool told = before != facts().datasets().end() && before->second.error() == dataset.error();
  if (!dataset.error().empty() && !told) {
    transition_.Note({.kind = EventKind::kDatasetFailed,
                      .text = fmt::format("The dispatcher cannot serve all of dataset {}: {}", id,
                                          dataset.error())});
  }
  transition_.Apply(DatasetOpened{id, dataset});
  transition_.TellWorkers();  // those with another digest are asked for file lists
  plans_.OnDataset(id, dataset.digest());
  return End();
}

Actions DispatcherMachine::OnPlanCompiled(const std::string& key,
                                          const Result<std::shared_ptr<const PlanFacts>>& plan,
                                          Moment now) {
  transition_.Begin(now);
  plans_.OnCompiled(key, plan);
  return End();
}

Actions DispatcherMachine::OnColumnsMissing(const std::string& key, const ColumnWant& want,
                                            Moment now) {
  transition_.Begin(now);
  plans_.OnColumnsMissing(key, want);
  return End();
}

Actions DispatcherMachine::OnPluginsMissing(const std::string& key,
                                            const std::vector<std::string>& plugins, Moment now) {
  transition_.Begin(now);
  plans_.OnPluginsMissing(key, plugins);
  return End();
}

Actions DispatcherMachine::OnDataDamaged(const std::string& key, const Status& why,
                                         const std::vector<std::string>& named, Moment now) {
  transition_.Begin(now);
  plans_.OnDataDamaged(key, why, named);
  return End();
}

Actions DispatcherMachine::OnColumnsKept(const std::string& columns, const Status& status,
                                         Moment now) {
  transition_.Begin(now);
  plans_.OnColumnsKept(columns);
  columns_.OnKept(columns, status);
  return End();
}

Actions DispatcherMachine::OnRecordCommitted(const v1::JobRecord& record, const Status& status,
                                             Moment now) {
  transition_.Begin(now);
  if (status.code() == StatusCode::kFailedPrecondition) {
    StepDown("its store refused a record: " + status.message());
  } else {
    records_.OnCommitted(record, status);
  }
  return End();
}

// --- Streams

Actions DispatcherMachine::OnStreamOpened(StreamId stream, bool of_worker, Moment now,
                                          std::string peer) {
  transition_.Begin(now);
  const DispatcherOptions& options = transition_.options();
  if (!stepped_down_.ok()) {
    transition_.Do(CloseStream{stream, stepped_down_});
  } else if (facts().streams().size() >= options.max_streams) {
    transition_.Do(CloseStream{
        stream, ResourceExhausted(fmt::format("the dispatcher has {} streams, its limit: retry in "
                                              "{:.0f} s",
                                              options.max_streams, ToSeconds(options.retry)))});
  } else {
    transition_.Apply(StreamOpened{stream, of_worker, transition_.now(), std::move(peer)});
  }
  return End();
}

Actions DispatcherMachine::OnStreamClosed(StreamId stream, Moment now) {
  transition_.Begin(now);
  transition_.Apply(StreamForgotten{stream});
  return End();
}

Actions DispatcherMachine::OnAttach(StreamId stream, v1::AttachRequest request, Moment now) {
  transition_.Begin(now);
  const StreamFacts* open = facts().FindStream(stream);
  if (open != nullptr && !open->of_worker) Hear(stream, std::move(request));
  return End();
}

Actions DispatcherMachine::OnHelloRefused(const v1::Hello& hello, const Status& why, Moment now) {
  transition_.Begin(now);
  transition_.Note(
      {.kind = EventKind::kConsumerRefused,
       .text = fmt::format("{} was refused: {}", ConsumerSubject(hello), why.message()),
       .peer = hello.where()});
  return End();
}

void DispatcherMachine::Hear(StreamId stream, v1::AttachRequest request) {
  const StreamFacts* open = facts().FindStream(stream);
  if (!open->session.is_set()) {
    if (!request.has_hello()) {
      return transition_.Close(
          stream, InvalidArgument("the first message of an Attach stream has no hello"));
    }
    Greet(stream, request.hello());
    open = facts().FindStream(stream);
    if (open == nullptr) return;
  }
  const SessionId id = open->session;
  const SessionFacts* session = facts().FindSession(id);
  if (session == nullptr) return;
  if (request.has_hello() && request.hello().nonce() != session->hello.nonce()) {
    return transition_.Close(
        stream, InvalidArgument(fmt::format(
                    "a second hello on the stream of session {}: open one stream for each session",
                    id.ToString())));
  }
  transition_.Apply(SessionHeard{id, transition_.now()});
  if (request.has_report()) reports_.Hear(id, std::move(*request.mutable_report()));
  if (request.bye() && facts().FindSession(id) != nullptr) {
    sessions_.Leave(id, stream, request.error());
  }
}

void DispatcherMachine::Greet(StreamId stream, const v1::Hello& hello) {
  if (Status status = CheckHello(hello, transition_.options()); !status.ok()) {
    return Refuse(stream, status);
  }
  const Number brought = FromProto(hello.session());
  const std::uint64_t seen = std::max<std::uint64_t>(hello.highest_term(), brought.term);
  if (Outranked(stream, hello.where(), seen) || ForeignNumber(hello.where(), brought)) return;
  admission_.Greet(stream, hello);
}

void DispatcherMachine::Refuse(StreamId stream, const Status& why) {
  const StreamFacts& open = *facts().FindStream(stream);
  transition_.Note(
      {.kind = open.of_worker ? EventKind::kWorkerRefused : EventKind::kConsumerRefused,
       .text = fmt::format("A {} was refused: {}", open.of_worker ? "worker" : "consumer",
                           why.message()),
       .peer = open.peer});
  transition_.Close(stream, why);
}

Actions DispatcherMachine::OnWork(StreamId stream, const v1::WorkRequest& request, Moment now) {
  transition_.Begin(now);
  const StreamFacts* open = facts().FindStream(stream);
  if (open != nullptr && open->of_worker) HearWorker(stream, request);
  return End();
}

void DispatcherMachine::HearWorker(StreamId stream, const v1::WorkRequest& request) {
  if (Status status = CheckWorkRequest(request); !status.ok()) {
    return Refuse(stream, status);
  }
  const std::uint64_t seen = std::max<std::uint64_t>(request.id().term(), request.highest_term());
  const std::string who = "worker " + request.name();
  if (Outranked(stream, who, seen) || ForeignNumber(who, FromProto(request.id()))) return;
  fleet_.OnReport(stream, request);
  plans_.OnAnswers(request);
}

// --- Terms

bool DispatcherMachine::Outranked(StreamId stream, const std::string& who, std::uint64_t seen) {
  const std::uint64_t term = facts().term();
  if (seen <= term || IsMutant(Mutant::kLowerTermObeyed)) return false;
  // The bound depends on the clock alone. If it moved with the term, peers could push it on and on.
  const auto clock =
      static_cast<std::uint64_t>(std::max<std::int64_t>(transition_.unix_seconds(), 0));
  if (seen > clock + kTermsAhead) {
    transition_.Close(
        stream, FailedPrecondition(fmt::format(
                    "{} has seen term {}, which cannot be: terms are seconds, this dispatcher's "
                    "is {} and its clock says {}; set the clock, or start {} again",
                    who, seen, term, clock, who)));
  } else {
    StepDown(fmt::format("{} has seen term {}", who, seen), seen);
  }
  return true;
}

bool DispatcherMachine::ForeignNumber(const std::string& who, Number brought) {
  if (brought.term != facts().term() || brought <= facts().last_number()) return false;
  StepDown(fmt::format("{} has the number {}, which another dispatcher of this term has issued",
                       who, brought.ToString()),
           brought.term);
  return true;
}

void DispatcherMachine::StepDown(const std::string& why, std::uint64_t seen) {
  if (!stepped_down_.ok()) return;
  stepped_down_ = Unavailable(
      fmt::format("this dispatcher's term {} is over: {}; connect again", facts().term(), why));
  seen_term_ = seen;
  transition_.Note(
      {.kind = EventKind::kTermOver,
       .text = fmt::format("This dispatcher's term {} is over: {}", facts().term(), why)});
  while (!facts().streams().empty()) {
    transition_.Close(facts().streams().begin()->first, stepped_down_);
  }
}

// --- Time

Actions DispatcherMachine::OnTick(Moment now) {
  transition_.Begin(now);
  if (!stepped_down_.ok()) return End();
  CloseLateHandshakes();
  admission_.Tick();
  sessions_.Tick();
  fleet_.Tick();
  lists_.Tick();
  columns_.Tick();
  records_.Tick();
  const bool round_ends = heartbeats_.Ends(transition_.now());
  if (round_ends) plans_.Tend();
  Heartbeat();
  if (round_ends) {
    desired_workers_.Update(transition_.now(),
                            SnapshotFleet(facts(), transition_.now(), transition_.options()));
  }
  return End();
}

void DispatcherMachine::Heartbeat() {
  for (const StreamId id : heartbeats_.Take(facts().streams(), transition_.now())) {
    const StreamFacts& stream = *facts().FindStream(id);
    const SessionFacts* session = facts().FindSession(stream.session);
    if (session != nullptr && session->stream == id) sessions_.Heartbeat(*session);
    const Worker* worker = facts().FindWorker(stream.worker);
    if (worker != nullptr && worker->stream == id) fleet_.Heartbeat(*worker);
  }
}

void DispatcherMachine::CloseLateHandshakes() {
  const Duration patience = transition_.options().hello_timeout;
  std::vector<StreamId> late;
  for (const auto& [id, stream] : facts().streams()) {
    if (stream.owner().is_set() || transition_.now() - stream.opened < patience) continue;
    late.push_back(id);
  }
  for (const StreamId id : late) {
    transition_.Close(
        id, Unavailable(fmt::format("no first message for {:.0f} s", ToSeconds(patience))));
  }
}

// --- Operators

Result<v1::DrainWorkerResponse> DispatcherMachine::DrainWorker(
    const v1::DrainWorkerRequest& request, Moment now, Actions& actions) {
  MILLRACE_RETURN_IF_ERROR(stepped_down_);
  transition_.Begin(now);
  auto response = fleet_.Drain(request.worker());
  actions = End();
  return response;
}

Result<v1::UndrainWorkerResponse> DispatcherMachine::UndrainWorker(
    const v1::UndrainWorkerRequest& request, Moment now, Actions& actions) {
  MILLRACE_RETURN_IF_ERROR(stepped_down_);
  transition_.Begin(now);
  auto response = fleet_.Undrain(request.worker());
  actions = End();
  return response;
}

Result<v1::EndJobResponse> DispatcherMachine::EndJob(const v1::EndJobRequest& request, Moment now,
                                                     Actions& actions,
                                                     const std::optional<std::string>& owner,
                                                     const std::string& who) {
  MILLRACE_RETURN_IF_ERROR(stepped_down_);
  transition_.Begin(now);
  auto response = sessions_.TurnOut(request.job(), owner, who);
  actions = End();
  return response;
}

}  // namespace millrace
