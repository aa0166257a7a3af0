// The dispatchers of a simulated history, and the store that they share.

#include <algorithm>

#include <fmt/core.h>

#include "server/dispatcher/machine/usable_workers.h"
#include "tests/sim/world.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kUnixAtStart = 1'700'000'000;

}  // namespace

Moment World::Now() const {
  return {net_.now(),
          kUnixAtStart + clock_offset_ + static_cast<std::int64_t>(ToSeconds(net_.now() - began_))};
}

std::optional<std::size_t> World::AnyDispatcher() {
  std::vector<std::size_t> up;
  for (std::size_t i = 0; i < dispatchers_.size(); ++i) {
    if (net_.IsUp(dispatchers_[i]->process)) up.push_back(i);
  }
  if (up.empty()) return std::nullopt;
  return up[net_.Below(up.size())];
}

std::optional<std::size_t> World::DispatcherAt(LinkId link) const {
  for (std::size_t i = 0; i < dispatchers_.size(); ++i) {
    const DispatcherNode& node = *dispatchers_[i];
    if (net_.IsUp(node.process) && node.machine->facts().FindStream(link) != nullptr) return i;
  }
  return std::nullopt;
}

void World::StartDispatcher() {
  dispatcher_wanted_ = false;
  const auto later = [this] {
    dispatcher_wanted_ = true;
    net_.After(milliseconds(500), [this] { StartDispatcher(); });
  };
  if (StoreFails() && !store_loses_answers_) return later();
  const Result<StoredState> stored = store_->Load();
  const std::uint64_t term =
      std::max({stored->term + 1, static_cast<std::uint64_t>(Now().unix_seconds), seen_term_ + 1});
  if (!store_->CommitTerm(term).ok()) return later();
  highest_stored_term_ = std::max(highest_stored_term_, term);
  if (StoreFails()) return later();
  ++counts_.terms;

  const std::size_t index = dispatchers_.size();
  for (std::size_t older = 0; older < index; ++older) {
    // The older one believes that it leads until it looks at its lease. It can only look while it
    // does not stand still.
    net_.In(dispatchers_[older]->process, Duration{0}, [this, older] {
      net_.In(dispatchers_[older]->process, net_.UpTo(kLooksAtLease),
              [this, older] { StopDispatcher(older, seconds(1)); });
    });
  }
  dispatchers_.push_back(std::make_unique<DispatcherNode>());
  DispatcherNode& node = *dispatchers_.back();
  node.process = net_.AddProcess(fmt::format("dispatcher {}", index));
  node.term = term;
  DispatcherOptions options = dispatcher_options_;
  node.machine = std::make_unique<DispatcherMachine>(options, term, stored->jobs, Now());
  Note(fmt::format("dispatcher {} leads with term {}", index, term));
  for (const auto& [dataset, state] : dispatcher_data_.States()) {
    if (net_.Chance(0.8)) {
      OpenAtDispatcher(index, dataset);
    } else {
      net_.In(node.process, net_.UpTo(seconds(2)),
              [this, index, dataset = dataset] { OpenAtDispatcher(index, dataset); });
    }
  }
  TickDispatcher(index);
}

void World::StopDispatcher(std::size_t index, Duration restart_after) {
  DispatcherNode& node = *dispatchers_[index];
  if (!net_.IsUp(node.process)) return;
  Note(fmt::format("dispatcher {} dies", index));
  net_.Kill(node.process);
  const bool others = std::any_of(dispatchers_.begin(), dispatchers_.end(),
                                  [this](const auto& d) { return net_.IsUp(d->process); });
  if (others || dispatcher_wanted_) return;
  dispatcher_wanted_ = true;
  net_.After(restart_after, [this] { StartDispatcher(); });
}

void World::TickDispatcher(std::size_t index) {
  net_.In(dispatchers_[index]->process, dispatcher_options_.tick, [this, index] {
    OnDispatcher(index, dispatchers_[index]->machine->OnTick(Now()));
    TickDispatcher(index);
  });
}

void World::OnDispatcher(std::size_t index, Actions actions) {
  DispatcherNode& node = *dispatchers_[index];
  for (Action& action : actions) {
    if (std::holds_alternative<LogEvent>(action)) continue;
    if (Crashes(node.crash, node.process)) return StopDispatcher(index, net_.UpTo(seconds(3)));
    if (auto* attach = std::get_if<millrace::SendAttach>(&action)) {
      CheckReason(node, *attach);
      SendAttachDown(index, *attach);
    } else if (auto* work = std::get_if<millrace::SendWork>(&action)) {
      CheckPlansTold(node, *work);
      CheckTasks(node, *work);
      // The message goes to the worker at the link's other end.
      net_.Send(
          work->stream, node.process,
          [this, link = work->stream, message = std::move(work->message)] {
            for (std::size_t w = 0; w < workers_.size(); ++w) {
              WorkerNode& worker = *workers_[w];
              if (worker.work != link || !net_.IsUp(worker.process)) continue;
              worker.machine->OnWorkResponse(worker.attempt, message, net_.now());
              if (worker.machine->term() < worker.highest_term) {
                Fail("I7: a worker obeys a lower term");
              }
              worker.highest_term = worker.machine->term();
              AfterWorker(w);
            }
          },
          nullptr);
    } else if (auto* close = std::get_if<millrace::CloseStream>(&action)) {
      CheckEndedForData(node, close->stream, close->status);
      net_.Close(close->stream, node.process, close->status);
    } else if (auto* compile = std::get_if<CompilePlan>(&action)) {
      net_.In(node.process, net_.UpTo(milliseconds(300)),
              [this, index, plan = *compile] { OnDispatcher(index, CompilePlanAt(index, plan)); });
    } else if (const auto* keep = std::get_if<KeepMeasured>(&action)) {
      KeepRange(index, keep->measured);
    } else if (const auto* finish = std::get_if<FinishColumns>(&action)) {
      FinishColumn(index, *finish);
    } else if (auto* commit = std::get_if<CommitRecord>(&action)) {
      Commit(index, commit->record);
    }
  }
  if (!net_.IsUp(node.process)) return;
  CheckSessions(node);
  if (node.machine->stepped_down().ok()) return;
  // As in dispatcher_service, the dispatcher begins again with a term above the one that it saw.
  seen_term_ = std::max(seen_term_, node.machine->seen_term());
  StopDispatcher(index, net_.UpTo(seconds(1)));
}

void World::Commit(std::size_t index, const v1::JobRecord& record) {
  const std::uint64_t term = dispatchers_[index]->term;
  // The write reaches the store even if the process dies meanwhile.
  net_.After(net_.UpTo(milliseconds(200)), [this, index, term, record] {
    const std::int64_t now = Now().unix_seconds;
    Status status = StoreFails() && !store_loses_answers_ ? ResourceExhausted("disk full")
                                                          : store_->CommitJob(term, record, now);
    if (status.ok() && term < highest_stored_term_) {
      Fail(fmt::format("I7: a record of term {} was stored after term {}", term,
                       highest_stored_term_));
    }
    if (StoreFails() && status.ok()) status = Unavailable("no answer from the store");
    net_.In(dispatchers_[index]->process, net_.UpTo(milliseconds(20)),
            [this, index, record, status] {
              OnDispatcher(index,
                           dispatchers_[index]->machine->OnRecordCommitted(record, status, Now()));
            });
  });
}

void World::RestoreStore(const StoredState& backup) {
  store_ = std::make_unique<MemoryStore>();
  highest_stored_term_ = backup.term;
  if (backup.term == 0) return;
  static_cast<void>(store_->CommitTerm(backup.term));
  for (const v1::JobRecord& record : backup.jobs) {
    static_cast<void>(store_->CommitJob(backup.term, record, Now().unix_seconds));
  }
}

void World::SendAttachDown(std::size_t index, const millrace::SendAttach& action) {
  const DispatcherNode& node = *dispatchers_[index];
  if (action.message.has_welcome()) CheckWelcome(node, action);
  for (const v1::WorkerRef& member : action.message.list().workers()) {
    // A Welcome answers the hello of a message whose report is read only then.
    if (!action.message.has_welcome()) CheckMember(node, action.stream, member);
    CheckMemberData(node, action.stream, member);
  }
  // Welcome and Waiting begin a session and cannot be lost. All other messages only make things
  // quicker, so they may be lost, and nobody is told.
  const bool control = !action.message.has_welcome() && !action.message.has_waiting();
  net_.Send(
      action.stream, node.process,
      [this, link = action.stream, message = action.message, leads = Leads(node)] {
        const std::optional<AtLink> to = TrainerAt(link);
        if (!to) return;
        TrainerNode& trainer = *trainers_[to->index];
        const std::size_t members = trainer.state->workers().members().size();
        const bool of_new_dispatcher =
            trainer.highest_term != 0 && message.term() > trainer.highest_term;
        trainer.state->OnAttachMessage(to->stream, message, net_.now());
        if (of_new_dispatcher && trainer.state->workers().members().size() < members) {
          Fail(fmt::format("J5: the first list of a new dispatcher removes members of {}",
                           trainer.where));
        }
        if (trainer.state->highest_term() < trainer.highest_term) {
          Fail("I7: a trainer obeys a lower term");
        }
        trainer.highest_term = trainer.state->highest_term();
        if (trainer.state->session().is_set() && !trainer.numbered) {
          trainer.numbered = net_.now();
          trainer.numbered_by_leader = leads;
        }
        AfterTrainer(to->index);
      },
      nullptr, control);
}

/// Checks that a worker which fails a consumer for good is in its list only if all others do, too.
void World::CheckMember(const DispatcherNode& node, LinkId stream, const v1::WorkerRef& member) {
  const DispatcherFacts& facts = node.machine->facts();
  const StreamFacts* from = facts.FindStream(stream);
  const SessionFacts* session = from == nullptr ? nullptr : facts.FindSession(from->session);
  if (session == nullptr) return;
  const auto fails = [session](WorkerId id) { return FailsForGood(*session, id); };
  if (!fails(WorkerId(FromProto(member.id())))) return;
  for (const auto& [id, worker] : facts.workers()) {
    if (fails(id) || !IsUsable(worker, *session, net_.now(), dispatcher_options_)) continue;
    return Fail(fmt::format("I9: a worker that fails {} for good is in its list while {} is not",
                            RankOfJob(session->hello), worker.report.name()));
  }
}

void World::CheckWelcome(const DispatcherNode& node, const millrace::SendAttach& action) {
  ++counts_.welcomes;
  if (!Leads(node)) return;  // the store belongs to another dispatcher by now
  const DispatcherFacts& facts = node.machine->facts();
  const SessionId welcomed(FromProto(action.message.welcome().session()));
  const SessionFacts* session = facts.FindSession(welcomed);
  if (session == nullptr) return;
  CheckColumns(session->hello.pipeline());
  if (session->hello.admitted()) return;
  for (const SessionId id : facts.SessionsOf(session->hello.job())) {
    if (id != session->id && facts.FindSession(id)->live) return;  // the job runs already
  }
  const Result<StoredState> stored = store_->Load();
  const auto record =
      std::find_if(stored->jobs.begin(), stored->jobs.end(), [&](const v1::JobRecord& r) {
        return r.name() == session->hello.job() && !r.ended() &&
               r.fingerprint() == action.message.welcome().fingerprint() &&
               r.world_size() == session->hello.world_size();
      });
  if (record == stored->jobs.end()) {
    Fail(fmt::format("I8: session {} of job {} was let in without its record on disk",
                     session->id.ToString(), session->hello.job()));
  }
}

void World::CheckSessions(const DispatcherNode& node) {
  std::map<std::string, const SessionFacts*> jobs;
  std::set<std::string> ranks;
  for (const auto& [id, session] : node.machine->facts().sessions()) {
    if (!session.live) continue;
    const SessionFacts& other = *jobs.emplace(session.hello.job(), &session).first->second;
    if (other.plan->fingerprint != session.plan->fingerprint ||
        other.hello.world_size() != session.hello.world_size() ||
        other.wanted_start() != session.wanted_start()) {
      Fail(fmt::format("I3: sessions {} and {} of job {} differ", id.ToString(),
                       other.id.ToString(), session.hello.job()));
    }
    if (!ranks.insert(RankOfJob(session.hello)).second) {
      Fail(fmt::format("I3: two live sessions are {}", RankOfJob(session.hello)));
    }
  }
}

}  // namespace millrace::sim
