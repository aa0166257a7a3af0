#include "tests/sim/world.h"

#include <algorithm>

#include <fmt/core.h>

namespace millrace::sim {
namespace {

using std::chrono::seconds;

// Every job ends within this time after all faults are over.
constexpr Duration kCalm = std::chrono::minutes(3);
// Workers and trainers need this time to find one another again after a fault.
constexpr Duration kRecovery = seconds(14);
// Within this time silent sessions end, and then the records of their jobs, even if another
// dispatcher has taken these over.
constexpr Duration kEndedWithin = seconds(40);

}  // namespace

World::World(const History& history)
    : history_(history),
      net_(history.seed, history.buffered_messages),
      began_(net_.now()),
      quiet_(MakeNullLogger()),
      store_(std::make_unique<MemoryStore>()) {
  dispatcher_options_.attach_timeout = seconds(8);
  dispatcher_options_.tick = std::chrono::milliseconds(250);  // a history has fewer events then
}

void World::Fail(const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = fmt::format("{:.3f} s: {}", ToSeconds(net_.now() - began_), what);
  Note(what);
}

void World::Note(const std::string& what) {
  if (keep_log) log.push_back(fmt::format("{:9.3f} {}", ToSeconds(net_.now() - began_), what));
}

void World::Disturb(Duration lasts) {
  if (history_.HasOneFault()) return;
  disturbed_until_ = std::max(disturbed_until_, net_.now() + lasts + kRecovery);
}

std::string World::Run() {
  disturbed_until_ = began_;
  Disturb(Duration{0});
  for (const std::set<std::size_t>& has : history_.datasets) {
    HostData& data = worker_data_.emplace_back();
    for (const std::size_t dataset : has) {
      data[kDatasets[dataset].id].configured = true;
      dispatcher_data_[kDatasets[dataset].id].configured = true;
    }
  }
  StartDispatcher();
  for (std::uint32_t i = 0; i < history_.workers; ++i) {
    workers_.push_back(std::make_unique<WorkerNode>());
    StartWorker(i);
  }
  for (const JobSetup& setup : history_.jobs) {
    Job job;
    job.setup = setup;
    job.name = fmt::format("job{}", jobs_.size());
    job.places = {setup.examples, setup.size, setup.global_size, setup.keep, setup.world_size};
    jobs_.push_back(std::move(job));
    Launch(jobs_.size() - 1, setup.start, setup.world_size);
  }
  faults_over_ = began_ + history_.faulty;
  net_.After(net_.UpTo(history_.faulty), [this] { backup_ = *store_->Load(); });
  for (const Fault& fault : history_.faults) {
    faults_over_ = std::max(faults_over_, began_ + fault.at + fault.lasts);
    net_.After(fault.at, [this, fault] { Strike(fault); });
  }
  const Time end = faults_over_ + kCalm;
  Time supervised = began_;
  while (failure_.empty() && !AllDone()) {
    if (!net_.Step(end)) {
      CheckEnd();
      break;
    }
    ++counts_.events;
    if (net_.now() - supervised >= std::chrono::milliseconds(500)) {
      supervised = net_.now();
      Supervise();
    }
  }
  CheckRecords();
  return failure_;
}

/// Checks that all records are ended within kEndedWithin after all jobs are done.
void World::CheckRecords() {
  // A zombie may come back after its job is done, and takes the job up again until it is killed.
  const Time end = std::max(net_.now(), faults_over_ + kZombieLives) + kEndedWithin;
  while (failure_.empty() && net_.Step(end)) {
  }
  if (!failure_.empty()) return;
  const Result<StoredState> stored = store_->Load();
  for (const v1::JobRecord& record : stored->jobs) {
    if (record.ended()) continue;
    Fail("the record of " + record.name() + " is live after all jobs are done");
  }
}

bool World::AllDone() const {
  return net_.now() >= began_ + history_.faulty &&
         std::all_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.done; });
}

void World::CheckEnd() {
  std::string stuck;
  for (const Job& job : jobs_) {
    if (job.done) continue;
    stuck += fmt::format(" {} is not done;", job.name);
    for (const std::size_t t : job.trainers) {
      const TrainerNode& trainer = *trainers_[t];
      stuck += fmt::format(" rank {} at {}", trainer.rank,
                           trainer.expected ? trainer.expected->ToString() : "no place");
      if (trainer.gone || !trainer.state) continue;
      Note(trainer.state->Dump());
      const SessionStats stats = trainer.state->stats(net_.now());
      stuck += fmt::format(" waits for {} {} '{}';", WaitCauseName(stats.now), stats.now_worker,
                           trainer.state->waiting_why());
    }
  }
  Fail("I9: long after all faults" + stuck);
}

bool World::Crashes(Moves& crash, ProcessId process) {
  if (!net_.IsUp(process)) return true;  // it died at an earlier action
  if (!crash || (*crash)-- > 0) return false;
  crash.reset();
  ++counts_.crashes_between;
  Note(net_.NameOf(process) + " dies between two actions");
  return true;
}

// --- Faults

void World::Strike(const Fault& fault) {
  Note(fmt::format("fault: {} {}/{} for {:.3f} s", FaultName(fault.kind), fault.target, fault.other,
                   ToSeconds(fault.lasts)));
  const std::size_t w = fault.target % workers_.size();
  WorkerNode& worker = *workers_[w];
  const std::size_t j = fault.target % jobs_.size();
  std::vector<std::size_t> alive;
  for (std::size_t t = 0; t < trainers_.size(); ++t) {
    if (!trainers_[t]->gone) alive.push_back(t);
  }
  const std::size_t t = alive.empty() ? 0 : alive[fault.target % alive.size()];
  if (alive.empty()) return;
  const std::optional<std::size_t> d = AnyDispatcher();
  // Picks a process of any kind, for faults that can strike every kind.
  const auto pick = [&](std::uint32_t n) {
    if (n % 3 == 0 && d) return dispatchers_[*d]->process;
    return n % 3 == 1 ? trainers_[alive[n / 3 % alive.size()]]->process
                      : workers_[n / 3 % workers_.size()]->process;
  };
  switch (fault.kind) {
    case FaultKind::kKillWorker:
      Disturb(Duration{0});
      return StopWorker(w, fault.lasts);
    case FaultKind::kPauseWorker:
      Disturb(Duration{0});
      return net_.Pause(worker.process, fault.lasts);
    case FaultKind::kSlowWorker:
      Disturb(fault.lasts + seconds(8));
      worker.slow_until = net_.now() + fault.lasts;
      return;
    case FaultKind::kKillDispatcher:
      if (d) StopDispatcher(*d, std::min<Duration>(fault.lasts, seconds(3)));
      return;
    case FaultKind::kPauseDispatcher:
      if (!d) return;
      net_.Pause(dispatchers_[*d]->process, fault.lasts);
      if (fault.other % 2 == 0 && !dispatcher_wanted_) {
        dispatcher_wanted_ = true;
        net_.After(std::min<Duration>(fault.lasts, seconds(5)), [this] { StartDispatcher(); });
        Disturb(fault.lasts + kLooksAtLease);
        // Its successor's streams break just when it comes back. So some peers that connect again
        // reach the old dispatcher.
        net_.After(fault.lasts + std::chrono::milliseconds(50), [this, d = *d] {
          for (std::size_t i = d + 1; i < dispatchers_.size(); ++i) {
            if (net_.IsUp(dispatchers_[i]->process)) {
              net_.BreakStreamsOf(dispatchers_[i]->process);
            }
          }
        });
      }
      return;
    case FaultKind::kDispatcherGone:
      if (d) StopDispatcher(*d, fault.lasts);
      return;
    case FaultKind::kWipeStore:
      if (!d) return;
      for (std::size_t i = 0; i < dispatchers_.size(); ++i) {
        StopDispatcher(i, std::min<Duration>(fault.lasts, seconds(3)));
      }
      RestoreStore(fault.other % 2 == 0 ? StoredState() : backup_);
      return;
    case FaultKind::kStoreErrors:
      store_fails_until_ = net_.now() + fault.lasts;
      store_loses_answers_ = fault.other % 2 == 0;
      return;
    case FaultKind::kKillTrainers:
      return KillTrainers(j, /*zombies=*/false, Duration{0});
    case FaultKind::kZombieTrainers:
      return KillTrainers(j, /*zombies=*/true, fault.lasts);
    case FaultKind::kPauseTrainer:
      Disturb(fault.lasts);
      return net_.Pause(trainers_[t]->process, fault.lasts);
    case FaultKind::kSlowLoop:
      trainers_[t]->slow_until = net_.now() + fault.lasts;
      return;
    case FaultKind::kBreakStreams:
      Disturb(Duration{0});
      return net_.BreakStreamsOf(pick(fault.target));
    case FaultKind::kPartition:
      Disturb(fault.lasts);
      net_.Block(pick(fault.target), pick(fault.other), fault.lasts);
      return net_.Block(pick(fault.other), pick(fault.target), fault.lasts);
    case FaultKind::kOneWayPartition:
      Disturb(fault.lasts);
      return net_.Block(pick(fault.target), pick(fault.other), fault.lasts);
    case FaultKind::kLoseMessages:
      Disturb(fault.lasts);
      return net_.Lose(pick(fault.target), fault.lasts);
    case FaultKind::kRepeatMessages:
      Disturb(fault.lasts);
      return net_.Repeat(pick(fault.target), fault.lasts);
    case FaultKind::kDrainWorker:
      // A worker that drains still sends what it owes. So nobody is disturbed until it stops.
      if (history_.HasOneFault()) drains_until_ = net_.now() + fault.lasts;
      if (fault.other % 2 == 0 || !d) {
        net_.In(worker.process, Duration{0}, [this, w] {
          workers_[w]->machine->Drain(net_.now());
          AfterWorker(w);
        });
      } else {
        net_.In(dispatchers_[*d]->process, Duration{0}, [this, d = *d, w] {
          v1::DrainWorkerRequest request;
          request.set_worker(fmt::format("w{}", w));
          Actions actions;
          static_cast<void>(dispatchers_[d]->machine->DrainWorker(request, Now(), actions));
          OnDispatcher(d, std::move(actions));
        });
      }
      return net_.In(worker.process, fault.lasts, [this, w] {
        Disturb(Duration{0});
        StopWorker(w, seconds(1));
      });
    case FaultKind::kReplay:
      Disturb(Duration{0});
      return Replay(t);
    case FaultKind::kClockStep:
      clock_offset_ += (static_cast<std::int64_t>(fault.other) - 500) * 5000;
      return;
    case FaultKind::kWrongCopies:
      worker.wrong_until = net_.now() + fault.lasts;
      return;
    case FaultKind::kBadWorkerData:
    case FaultKind::kBadData:
    case FaultKind::kLacksData:
    case FaultKind::kReplacedData:
      return StrikeData(fault);
    case FaultKind::kOtherCode:
      return StrikeCode(fault);
    case FaultKind::kCrashBetween: {
      Disturb(seconds(3));
      const Moves after = static_cast<int>(fault.other % 9);
      if (fault.target % 3 == 0 && d) {
        dispatchers_[*d]->crash = after;
      } else if (fault.target % 3 == 1) {
        trainers_[t]->crash = after;
      } else {
        worker.crash = after;
      }
      return;
    }
  }
}

}  // namespace millrace::sim
