#include "simulation.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace::test {
namespace {

constexpr Duration kStep = milliseconds(100);
constexpr Duration kFaulty = seconds(45);
constexpr Duration kCalm = seconds(120);
constexpr std::uint32_t kWindow = 7;

std::string Nonce(int process) { return fmt::format("{:016}", process); }

}  // namespace

Simulation::Simulation(std::uint64_t seed) : random_(seed) {
  options_.seed = seed;
  options_.attach_timeout = seconds(8);
}

void Simulation::Fail(const std::string& what) {
  if (failure_.empty()) {
    failure_ = fmt::format("after {:.1f} s: {}", ToSeconds(now_.time - Time{seconds(1000)}), what);
  }
}

std::string Simulation::Run() {
  const Time start = now_.time;
  Restart();
  workers_.resize(3);
  for (int i = 0; i < 3; ++i) StartWorker(i);
  StartJob("a");
  StartJob("b");
  while (failure_.empty() && now_.time - start < kFaulty + kCalm) {
    now_.time = now_.time + kStep;
    now_.unix_seconds = 1'700'000'000 + static_cast<std::int64_t>(ToSeconds(now_.time - start));
    healed_ = now_.time - start >= kFaulty;
    if (!healed_) Misfortune();
    while (!events_.empty() && events_.begin()->first <= now_.time) {
      auto event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      event();
    }
    if (now_.time >= dispatcher_runs_at_) Perform(dispatcher_->OnTick(now_));
    for (int i = 0; i < static_cast<int>(workers_.size()); ++i) ActWorker(i);
    for (int i = 0; i < static_cast<int>(trainers_.size()); ++i) Act(i);
    const bool all_over = std::all_of(trainers_.begin(), trainers_.end(), [](const Trainer& t) {
      return t.dead || t.finished || !t.ended.ok();
    });
    if (healed_ && all_over) return failure_;
  }
  for (const Trainer& t : trainers_) {
    if (t.dead || t.finished || !t.ended.ok()) continue;
    const SessionFacts* session = dispatcher_->state().FindSession(FromProto(t.hello.session()));
    Fail(fmt::format("trainer {} ({}) is stuck at {} of {}: held {}, why '{}'", t.hello.where(),
                     t.group, t.next.ToString(), t.end.ToString(), t.held.size(),
                     session == nullptr ? "no session" : session->why));
  }
  return failure_;
}

// --- Network, dispatcher, store

StreamId Simulation::OpenLink(bool of_worker, int process) {
  const StreamId id = ++last_link_;
  links_[id] = {of_worker, process, generation_, true, now_.time, now_.time};
  SendUp(id, [this, id, of_worker] { return dispatcher_->OnStreamOpened(id, of_worker, now_); });
  return id;
}

void Simulation::SendUp(StreamId id, std::function<Actions()> deliver) {
  Link& link = links_.at(id);
  link.up_free =
      std::max(link.up_free, now_.time + UpTo(healed_ ? milliseconds(50) : milliseconds(400)));
  At(link.up_free, [this, id, deliver = std::move(deliver)] {
    const auto it = links_.find(id);
    if (it == links_.end() || !it->second.up || it->second.generation != generation_) return;
    if (now_.time < dispatcher_runs_at_) return BreakLink(id);
    Perform(deliver());
  });
}

void Simulation::SendDown(StreamId id, std::function<void()> deliver) {
  const auto it = links_.find(id);
  if (it == links_.end() || !it->second.up) return;
  Link& link = it->second;
  link.down_free =
      std::max(link.down_free, now_.time + UpTo(healed_ ? milliseconds(50) : milliseconds(400)));
  At(link.down_free, [this, id, deliver = std::move(deliver)] {
    const auto at = links_.find(id);
    if (at != links_.end() && at->second.up) deliver();
  });
}

/// Both ends learn of it, each in its own time.
void Simulation::BreakLink(StreamId id) {
  const auto it = links_.find(id);
  if (it == links_.end() || !it->second.up) return;
  it->second.up = false;
  const Link link = it->second;
  At(now_.time + UpTo(seconds(2)), [this, id, generation = link.generation] {
    if (generation == generation_) Perform(dispatcher_->OnStreamClosed(id, now_));
  });
  At(now_.time + UpTo(seconds(2)), [this, id, link] {
    if (link.of_worker) {
      WorkerProcess& worker = workers_[static_cast<std::size_t>(link.process)];
      if (worker.link == id) worker.link = 0;
    } else {
      OnClosed(link.process, id, Unavailable("broken"));
    }
  });
}

void Simulation::Restart() {
  ++generation_;
  ++counts_.restarts;
  for (auto& [id, link] : links_) {
    if (link.up) BreakLink(id);
  }
  stored_term_ = std::max<std::uint64_t>(stored_term_ + 1, now_.unix_seconds);
  std::vector<v1::JobRecord> records;
  for (const auto& [name, record] : disk_) records.push_back(record);
  dispatcher_ = std::make_unique<Dispatcher>(options_, stored_term_, std::move(records), now_);
  v1::DatasetState dataset;
  dataset.set_digest(DatasetDigest());
  Perform(dispatcher_->OnDataset("stdlib", dataset, now_));
}

void Simulation::Perform(Actions actions) {
  for (const auto& [id, session] : dispatcher_->state().sessions()) {
    highest_issued_ = std::max(highest_issued_, id);
  }
  for (Action& action : actions) {
    if (auto* a = std::get_if<SendAttach>(&action)) {
      if (a->message.has_welcome()) CheckWelcome(*a);
      // One message in a hundred is lost with nobody told, where that can be made good.
      const bool lost =
          !healed_ && (a->message.leases_size() > 0 || a->message.has_welcome()) && Chance(0.02);
      if (lost) continue;
      const StreamId id = a->stream;
      const int process = links_.at(id).process;
      SendDown(id, [this, id, process, message = std::move(a->message)] {
        OnMessage(process, id, message);
      });
    } else if (auto* w = std::get_if<SendWork>(&action)) {
      const StreamId id = w->stream;
      const int process = links_.at(id).process;
      SendDown(id, [this, id, process, message = std::move(w->message)] {
        WorkerProcess& worker = workers_[static_cast<std::size_t>(process)];
        if (worker.link != id) return;
        if (message.term() < worker.highest_term) Fail("a worker hears a lower term");
        worker.highest_term = message.term();
        if (!message.has_id()) return;  // a pulse
        *worker.report.mutable_id() = message.id();
        worker.report.clear_plans();
        for (const auto& plan : message.plans()) {
          v1::PlanState& state = *worker.report.add_plans();
          state.set_fingerprint(plan.fingerprint());
          state.set_phase(v1::READY);
        }
      });
    } else if (auto* c = std::get_if<CloseStream>(&action)) {
      const StreamId id = c->stream;
      const Link link = links_.at(id);
      SendDown(id, [this, id, link, status = c->status] {
        links_.at(id).up = false;
        if (link.of_worker) {
          WorkerProcess& worker = workers_[static_cast<std::size_t>(link.process)];
          if (worker.link == id) worker.link = 0;
        } else {
          OnClosed(link.process, id, status);
        }
      });
    } else if (auto* p = std::get_if<CompilePlan>(&action)) {
      At(now_.time + UpTo(seconds(1)), [this, p = *p, generation = generation_] {
        if (generation != generation_) return;
        Perform(dispatcher_->OnPlanCompiled(p.key, CompileFake(p.pipeline), now_));
      });
    } else if (auto* r = std::get_if<CommitRecord>(&action)) {
      At(now_.time + UpTo(milliseconds(500)), [this, record = r->record, generation = generation_] {
        const bool fails = now_.time < store_works_at_ || generation != generation_;
        if (!fails) disk_[record.name()] = record;
        if (generation != generation_) return;  // an old term's write: fenced
        Perform(dispatcher_->OnRecordCommitted(record, fails ? Internal("disk full") : OkStatus(),
                                               now_));
      });
    }
  }
  CheckState();
}

void Simulation::CheckWelcome(const SendAttach& action) {
  ++counts_.welcomes;
  const SessionFacts* session =
      dispatcher_->state().FindSession(FromProto(action.message.welcome().session()));
  if (session == nullptr) return;  // it left at once
  const std::string& job = session->hello.job();
  for (const Number id : dispatcher_->state().SessionsOf(job)) {
    if (id != session->id && dispatcher_->state().FindSession(id)->live) return;  // not a new job
  }
  if (session->hello.admitted()) return;
  const auto record = disk_.find(job);
  if (record == disk_.end() || record->second.ended() ||
      record->second.fingerprint() != action.message.welcome().fingerprint() ||
      record->second.world_size() != session->hello.world_size()) {
    Fail(fmt::format("I8: session {} of job {} was let in without its record on disk",
                     session->id.ToString(), job));
  }
}

void Simulation::CheckState() {
  const auto& sessions = dispatcher_->state().sessions();
  std::map<std::string, const SessionFacts*> jobs;
  std::set<std::string> ranks;
  for (const auto& [id, session] : sessions) {
    if (!session.live) continue;
    const auto [it, first] = jobs.emplace(session.hello.job(), &session);
    const SessionFacts& other = *it->second;
    if (!first && (other.plan->fingerprint != session.plan->fingerprint ||
                   other.hello.world_size() != session.hello.world_size() ||
                   other.wanted_start() != session.wanted_start())) {
      Fail(fmt::format("I3: sessions {} and {} of job {} differ", id.ToString(),
                       other.id.ToString(), session.hello.job()));
    }
    if (!ranks.insert(RankOfJob(session.hello)).second) {
      Fail(fmt::format("I3: two live sessions are {}", RankOfJob(session.hello)));
    }
  }
}

// --- Trainers

void Simulation::StartJob(const std::string& job) {
  HelloOptions options;
  options.job = job;
  options.world_size = static_cast<std::uint32_t>(1 + Below(2));
  options.yaml = Yaml(Chance(0.5) ? "keep=1\nexamples=77\n" : "");
  options.start = {Below(2), 8 * Below(3)};
  options.epochs = static_cast<std::uint32_t>(2 + Below(12));
  for (std::uint32_t rank = 0; rank < options.world_size; ++rank) {
    Trainer trainer;
    options.rank = rank;
    const int process = ++processes_;
    options.where = fmt::format("host{}:{}", process, process);
    trainer.hello = MakeHello(options);
    trainer.hello.set_nonce(Nonce(process));
    trainer.steps =
        CompileFake(trainer.hello.pipeline()).value()->Steps(options.world_size).value();
    trainer.group = fmt::format("{}/{}/{}/{}/{}", job, rank, options.yaml, options.world_size,
                                options.start.ToString());
    trainer.next = trainer.steps->Start(options.start).value();
    trainer.end = {options.start.epoch + options.epochs, 0};
    trainer.retry_at = now_.time + UpTo(seconds(1));
    trainers_.push_back(std::move(trainer));
  }
}

void Simulation::Connect(int index) {
  Trainer& trainer = trainers_[static_cast<std::size_t>(index)];
  v1::AttachRequest request;
  *request.mutable_hello() = trainer.hello;
  trainer.link = OpenLink(false, index);
  trainer.reported = now_.time;
  if (trainer.hello.admitted()) {
    // With the hello, as one message.
    v1::Report& report = *request.mutable_report();
    ToProto(trainer.next, report.mutable_next());
    report.set_window(kWindow);
    for (const auto& lease : trainer.held) *report.add_held() = lease;
    ToProto(trainer.last_lease, report.mutable_last_lease());
  }
  SendUp(trainer.link,
         [this, id = trainer.link, request] { return dispatcher_->OnAttach(id, request, now_); });
}

void Simulation::SendReport(int index) {
  Trainer& trainer = trainers_[static_cast<std::size_t>(index)];
  v1::AttachRequest request;
  v1::Report& report = *request.mutable_report();
  trainer.reported = now_.time;
  if (trainer.hello.admitted()) {
    ToProto(trainer.next, report.mutable_next());
    report.set_window(kWindow);
    for (const auto& lease : trainer.held) *report.add_held() = lease;
    ToProto(trainer.last_lease, report.mutable_last_lease());
    for (const auto& [worker, until] : trainer.failing) {
      if (until <= now_.time) continue;
      v1::Failing& failing = *report.add_failing();
      ToProto(worker, failing.mutable_worker());
      failing.set_remaining_seconds(ToSeconds(until - now_.time));
    }
  }
  if (trainer.finished) request.set_bye(true);
  SendUp(trainer.link,
         [this, id = trainer.link, request] { return dispatcher_->OnAttach(id, request, now_); });
}

void Simulation::Act(int index) {
  Trainer& trainer = trainers_[static_cast<std::size_t>(index)];
  if (!Running(trainer.paused_until, trainer.dead) || trainer.finished || !trainer.ended.ok())
    return;
  if (trainer.link == 0) {
    if (now_.time >= trainer.retry_at) Connect(index);
    return;
  }
  if (trainer.hello.admitted()) Take(trainer);
  const Duration apart = trainer.hello.admitted() ? milliseconds(300) : seconds(1);
  if (trainer.finished || now_.time - trainer.reported >= apart) SendReport(index);
  if (trainer.finished) ++counts_.finished;
}

void Simulation::Take(Trainer& trainer) {
  for (auto lease = trainer.held.begin(); lease != trainer.held.end(); ++lease) {
    if (lease->shard().epoch() != trainer.next.epoch ||
        lease->shard().position() != trainer.next.example) {
      continue;
    }
    const Number worker = FromProto(lease->worker().id());
    const bool serves = std::any_of(workers_.begin(), workers_.end(), [&](const WorkerProcess& w) {
      return FromProto(w.report.id()) == worker && Running(w.paused_until, w.dead);
    });
    if (serves) {
      if (Chance(0.3)) return;
      ++batches_taken_;
      trainer.stuck_since = now_.time;
      v1::Shard& shard = *lease->mutable_shard();
      shard.set_position(shard.position() + shard.stride());
      shard.set_first_example(shard.first_example() + shard.stride());
      shard.set_batches(shard.batches() - 1);
      if (shard.batches() == 0) trainer.held.erase(lease);
      trainer.next = trainer.steps->Next(trainer.next);
      trainer.finished = trainer.next >= trainer.end;
    } else if (now_.time - trainer.stuck_since > seconds(3)) {
      trainer.failing[worker] = now_.time + seconds(3);
      std::erase_if(trainer.held,
                    [&](const v1::Lease& l) { return FromProto(l.worker().id()) == worker; });
    }
    return;
  }
}

void Simulation::CheckLease(const Trainer& trainer, const v1::Lease& lease) {
  const v1::Shard& shard = lease.shard();
  const StepArithmetic& steps = *trainer.steps;
  Position at{shard.epoch(), shard.position()};
  if (at.epoch >= trainer.end.epoch) Fail("a lease lies beyond the epochs wanted");
  if (shard.batches() == 0) Fail("a lease has no batches");
  for (std::uint32_t k = 0; k < shard.batches(); ++k) {
    if (at.epoch != shard.epoch() || at.example >= steps.options().examples) {
      return Fail("a lease crosses the end of an epoch");
    }
    const ExampleRange range = steps.RankExamples(at, trainer.hello.rank());
    if (range != ExampleRange{shard.first_example() + k * shard.stride(), shard.examples()}) {
      return Fail("a lease holds other places than its rank's");
    }
    at = steps.Next(at);
  }
}

void Simulation::OnMessage(int index, StreamId link, const v1::AttachResponse& message) {
  Trainer& trainer = trainers_[static_cast<std::size_t>(index)];
  if (trainer.link != link || trainer.dead) return;
  if (now_.time < trainer.paused_until) {  // it waits in the socket
    return At(trainer.paused_until,
              [this, index, link, message] { OnMessage(index, link, message); });
  }
  if (message.term() < trainer.hello.highest_term()) return Fail("a trainer hears a lower term");
  trainer.hello.set_highest_term(message.term());
  const auto learn = [&](const v1::Number& number) {
    *trainer.hello.mutable_session() = number;
    Number& highest = highest_of_group_[trainer.group];
    highest = std::max(highest, FromProto(number));
  };
  if (message.has_waiting()) learn(message.waiting().session());
  if (message.has_welcome()) {
    learn(message.welcome().session());
    trainer.hello.set_admitted(true);
    SendReport(index);
  }
  for (const auto& lease : message.leases()) {
    ++counts_.leases;
    CheckLease(trainer, lease);
    trainer.last_lease = std::max(trainer.last_lease, FromProto(lease.id()));
    const Position at{lease.shard().epoch(), lease.shard().position()};
    if (at >= trainer.next) trainer.held.push_back(lease);
  }
}

void Simulation::OnClosed(int index, StreamId link, const Status& status) {
  Trainer& trainer = trainers_[static_cast<std::size_t>(index)];
  if (trainer.link != link) return;
  if (now_.time < trainer.paused_until) {
    return At(trainer.paused_until, [this, index, link, status] { OnClosed(index, link, status); });
  }
  trainer.link = 0;
  trainer.retry_at = now_.time + UpTo(seconds(2));
  if (status.code() == StatusCode::kAborted) {
    ++counts_.taken_over;
    const Number own = FromProto(trainer.hello.session());
    // The successor may not have heard its number yet, and the dispatcher may be another by now.
    const Number highest = std::max(highest_of_group_[trainer.group], highest_issued_);
    if (own.is_set() && highest <= own) {
      Fail(fmt::format("I4: {} lost, and no later rival exists: {}", own.ToString(),
                       status.message()));
    }
    trainer.ended = status;
  } else if (status.code() == StatusCode::kFailedPrecondition) {
    ++counts_.refused;
    if (status.message().find("is held by") == std::string::npos) Fail(status.message());
    trainer.ended = status;
  }
}

// --- Workers and misfortune

void Simulation::StartWorker(int index) {
  const int process = ++processes_;
  WorkerProcess worker;
  worker.report.set_protocol(1);
  worker.report.set_nonce(Nonce(process));
  worker.report.set_name(fmt::format("w{}", process));
  worker.report.mutable_self()->set_address(fmt::format("w{}:7701", process));
  worker.report.mutable_self()->set_host_id(index == 0 ? "h7" : "w");
  (*worker.report.mutable_datasets())["stdlib"].set_digest(DatasetDigest());
  workers_[static_cast<std::size_t>(index)] = worker;
}

void Simulation::ActWorker(int index) {
  WorkerProcess& worker = workers_[static_cast<std::size_t>(index)];
  if (worker.dead && now_.time >= worker.starts_at) StartWorker(index);
  if (!Running(worker.paused_until, worker.dead)) return;
  if (worker.link == 0) {
    if (now_.time < worker.retry_at) return;
    worker.retry_at = now_.time + UpTo(seconds(1));
    worker.link = OpenLink(true, index);
  } else if (now_.time - worker.reported < seconds(1)) {
    return;
  }
  worker.reported = now_.time;
  SendUp(worker.link, [this, id = worker.link, report = worker.report] {
    return dispatcher_->OnWork(id, report, now_);
  });
}

void Simulation::Misfortune() {
  if (Chance(0.01) && !links_.empty()) BreakLink(1 + Below(last_link_));
  if (Chance(0.003)) {
    Restart();
    dispatcher_runs_at_ = now_.time + UpTo(seconds(3));
  }
  if (Chance(0.003)) dispatcher_runs_at_ = now_.time + UpTo(seconds(6));
  if (Chance(0.003)) {
    store_works_at_ = now_.time + UpTo(seconds(8));
    ++counts_.outages;
  }
  if (Chance(0.006)) {
    WorkerProcess& worker = workers_[Below(workers_.size())];
    if (worker.link != 0) BreakLink(worker.link);
    worker.dead = true;
    worker.starts_at = now_.time + UpTo(seconds(5));
  }
  if (Chance(0.006)) workers_[Below(workers_.size())].paused_until = now_.time + UpTo(seconds(8));
  for (const char* job : {"a", "b"}) {
    if (!Chance(0.006)) continue;
    // Its trainers are killed, or stand still and come back as zombies; others take their place.
    const bool killed = Chance(0.5);
    const Time until = now_.time + UpTo(seconds(25));
    for (Trainer& trainer : trainers_) {
      if (trainer.hello.job() != job) continue;
      if (killed && trainer.link != 0) BreakLink(trainer.link);
      trainer.dead |= killed;
      trainer.paused_until = std::max(trainer.paused_until, until);
    }
    StartJob(job);
  }
  // A connection is replayed: the same hello on another stream.
  if (Chance(0.005) && !trainers_.empty()) {
    const int index = static_cast<int>(Below(trainers_.size()));
    const v1::Hello hello = trainers_[static_cast<std::size_t>(index)].hello;
    const StreamId ghost = OpenLink(false, index);
    v1::AttachRequest request;
    *request.mutable_hello() = hello;
    SendUp(ghost, [this, ghost, request] { return dispatcher_->OnAttach(ghost, request, now_); });
  }
}

}  // namespace millrace::test
