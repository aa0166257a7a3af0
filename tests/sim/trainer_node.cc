// Trainers of a simulated history: a consumer's state machine each, and a loop that takes its
// batches in lockstep with the job's other ranks. Who dies is launched again from the job's
// checkpoint, all ranks of it.

#include <algorithm>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/base/protocol_version.h"
#include "tests/sim/world.h"
#include "tests/unit/server/dispatcher/harness.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// docs/protocol.md, I9: 3 s and the build; and what messages and reports take.
constexpr Duration kLongestWait = milliseconds(4500);

}  // namespace

Digest128 World::DigestOf(const std::string& fingerprint, std::uint64_t epoch,
                          const ExampleRange& range) {
  return Xxh3(fmt::format("{}/{}/{}/{}", fingerprint, epoch, range.first, range.count));
}

// --- Launching

void World::Launch(std::size_t index, Position start, std::uint32_t world_size) {
  Job& job = jobs_[index];
  job.relaunching = false;
  job.places.world_size = world_size;
  job.trainers.clear();
  job.launched_at = start;
  ++job.launches;
  std::erase_if(job.delivered, [&](const Delivered& d) { return d.at >= start; });
  // From here on `drop` leaves out what is less than a step of this world size.
  job.delivered.push_back({start, {start.example, 0}, job.places.step()});
  Note(fmt::format("{} is launched at {}, world size {}", job.name, start.ToString(), world_size));
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    net_.After(net_.UpTo(seconds(1)), [this, index, rank, start, launch = job.launches] {
      if (jobs_[index].launches == launch) StartTrainer(index, rank, start);
    });
  }
}

void World::StartTrainer(std::size_t job_index, std::uint32_t rank, Position start) {
  Job& job = jobs_[job_index];
  const std::size_t index = trainers_.size();
  job.trainers.push_back(index);
  trainers_.push_back(std::make_unique<TrainerNode>());
  TrainerNode& trainer = *trainers_.back();
  trainer.process = net_.AddProcess(fmt::format("trainer {}", index));
  trainer.job = job_index;
  trainer.rank = rank;
  trainer.places = job.places;
  trainer.start = start;
  trainer.end = {job.setup.end_epoch, 0};
  trainer.started = net_.now();
  trainer.where = fmt::format("host{}:{}", index, index);

  client::SessionStateOptions options;
  options.address = "d:1";
  options.prefetch_bytes = job.setup.prefetch_bytes;
  options.connect_timeout = std::chrono::hours(1);
  v1::Hello& hello = options.hello;
  hello.set_protocol(kProtocol);
  hello.set_job(job.name);
  hello.set_rank(rank);
  hello.set_world_size(job.places.world_size);
  hello.mutable_pipeline()->set_yaml(fmt::format("examples={}\nsize={}\nglobal_size={}\nkeep={}\n",
                                                 job.setup.examples, job.setup.size,
                                                 job.setup.global_size, job.setup.keep ? 1 : 0));
  ToProto(start, hello.mutable_start());
  hello.set_nonce(fmt::format("{:016}", ++processes_));
  hello.set_where(trainer.where);
  hello.set_host_id(fmt::format("h{}", index));
  hello.set_epochs(static_cast<std::uint32_t>(job.setup.end_epoch - start.epoch));
  *trainer.first_message.mutable_hello() = hello;
  trainer.state = std::make_unique<client::SessionState>(
      std::move(options), [this] { return net_.Unit(); }, quiet_);
  trainer.state->Start(net_.now());
  AfterTrainer(index);
}

void World::KillTrainers(std::size_t index, bool zombies, Duration still) {
  Job& job = jobs_[index];
  if (job.done || job.relaunching || job.trainers.empty()) return;
  Note(fmt::format("{}: its trainers {}", job.name, zombies ? "stand still" : "die"));
  for (const std::size_t t : job.trainers) {
    TrainerNode& trainer = *trainers_[t];
    if (trainer.gone) continue;
    if (zombies && !trainer.finished) {
      net_.Pause(trainer.process, still);
      // It comes back; nobody wants it, and somebody ends it.
      net_.After(still + net_.UpTo(seconds(10)), [this, t] {
        net_.Kill(trainers_[t]->process);
        trainers_[t]->gone = true;
      });
    } else {
      net_.Kill(trainer.process);
      trainer.gone = true;
    }
  }
  Relaunch(index);
}

/// From the checkpoint that the slowest rank had reached, or an earlier one.
void World::Relaunch(std::size_t index) {
  Job& job = jobs_[index];
  if (job.relaunching) return;
  job.relaunching = true;
  ++job.launches;  // who has not begun of the last one never does
  ++counts_.relaunches;
  Position checkpoint = job.trainers.size() < job.places.world_size
                            ? job.launched_at
                            : Position{~std::uint64_t{0}, 0};
  for (const std::size_t t : job.trainers) {
    checkpoint = std::min(checkpoint, trainers_[t]->expected.value_or(job.launched_at));
  }
  checkpoint = std::max(checkpoint, job.launched_at);
  if (net_.Chance(0.3)) checkpoint = job.launched_at;
  std::uint32_t world_size = 0;
  do {
    world_size = static_cast<std::uint32_t>(1 + net_.Below(3));
  } while (job.setup.global_size % world_size != 0 ||
           (!job.setup.keep && job.setup.size * world_size > job.setup.examples));
  net_.After(net_.UpTo(seconds(3)), [this, index, checkpoint, world_size] {
    Job& again = jobs_[index];
    if (checkpoint.epoch >= again.setup.end_epoch) {
      again.done = true;
      return CheckCovered(again);
    }
    Launch(index, checkpoint, world_size);
  });
}

void World::Supervise() {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    Job& job = jobs_[i];
    if (job.done || job.relaunching) continue;
    const auto is = [this](auto what) {
      return [this, what](std::size_t t) { return (*trainers_[t]).*what; };
    };
    if (std::any_of(job.trainers.begin(), job.trainers.end(), is(&TrainerNode::gone))) {
      KillTrainers(i, /*zombies=*/false, Duration{0});
    } else if (job.trainers.size() == job.places.world_size &&
               std::all_of(job.trainers.begin(), job.trainers.end(), is(&TrainerNode::finished))) {
      job.done = true;
      Note(fmt::format("{} is done", job.name));
      CheckCovered(job);
    }
  }
}

/// E: what its checkpoints count is each epoch once, from where the job began.
void World::CheckCovered(const Job& job) {
  std::map<std::uint64_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>> epochs;
  std::map<std::uint64_t, std::uint64_t> step;  // the last one's examples
  for (const Delivered& d : job.delivered) {
    if (d.range.count > 0) {
      epochs[d.at.epoch].emplace_back(d.range.first, d.range.first + d.range.count);
    }
    step[d.at.epoch] = d.step;
  }
  const Position first = job.setup.start;
  for (std::uint64_t epoch = first.epoch; epoch < job.setup.end_epoch; ++epoch) {
    auto& ranges = epochs[epoch];
    std::sort(ranges.begin(), ranges.end());
    std::uint64_t at = epoch == first.epoch ? first.example : 0;
    for (const auto& [from, to] : ranges) {
      if (from != at) {
        return Fail(
            fmt::format("E: {}, epoch {}: place {} follows place {}", job.name, epoch, from, at));
      }
      at = to;
    }
    // What `drop` leaves out is less than a step, in whatever world size came last to it.
    const std::uint64_t left = job.setup.examples - at;
    const std::uint64_t least = job.setup.keep ? 1 : step.contains(epoch) ? step[epoch] : left + 1;
    if (left >= least) {
      return Fail(fmt::format("E: {}, epoch {}: {} examples never came", job.name, epoch, left));
    }
  }
}

// --- Streams

void World::AfterTrainer(std::size_t index) {
  TrainerNode& trainer = *trainers_[index];
  if (trainer.gone) return;
  const auto perform = [&] {
    for (client::Action& action : trainer.state->TakeActions()) {
      if (Crashes(trainer.crash, trainer.process)) {
        net_.Kill(trainer.process);
        trainer.gone = true;
        return false;
      }
      PerformTrainer(index, std::move(action));
    }
    return true;
  };
  if (!perform()) return;
  if (!trainer.state->status().ok() && !trainer.finished) return OnTrainerEnded(index);
  Loop(index);
  if (!perform()) return;
  CheckTrainer(trainer);
  TickTrainer(index);
}

void World::TickTrainer(std::size_t index) {
  TrainerNode& trainer = *trainers_[index];
  const Time due = std::max(trainer.state->NextTick(), net_.now() + milliseconds(1));
  if (trainer.next_tick > net_.now() && trainer.next_tick <= due) return;
  trainer.next_tick = due;
  net_.In(trainer.process, due - net_.now(), [this, index, due] {
    TrainerNode& ticked = *trainers_[index];
    if (ticked.next_tick != due || ticked.gone) return;
    ticked.next_tick = {};
    if (ticked.finished && ticked.state->left()) return;
    ticked.state->Tick(net_.now());
    AfterTrainer(index);
  });
}

void World::OnTrainerEnded(std::size_t index) {
  TrainerNode& trainer = *trainers_[index];
  const Status& status = trainer.state->status();
  Note(fmt::format("{} ends: {}", net_.NameOf(trainer.process), status.message()));
  trainer.gone = true;
  net_.Kill(trainer.process);
  if (status.code() == StatusCode::kAborted) {
    ++counts_.taken_over;
    const std::string by = " was taken over by ";
    const auto at = status.message().find(by);
    const TrainerNode* winner =
        at == std::string::npos ? nullptr : FindTrainer(status.message().substr(at + by.size()));
    if (winner == nullptr) return Fail("I4: a session ended with: " + status.message());
    if (winner->numbered && *winner->numbered < trainer.started) {
      Fail(fmt::format("I4: {} was taken over by {}, which had its number before the other began",
                       trainer.where, winner->where));
    }
  } else if (status.code() == StatusCode::kFailedPrecondition &&
             status.message().find("is held by") != std::string::npos) {
    ++counts_.refused;
  } else {
    Fail("a session ended with: " + status.message());
  }
}

const World::TrainerNode* World::FindTrainer(const std::string& where) const {
  const auto found = std::find_if(trainers_.begin(), trainers_.end(),
                                  [&](const auto& t) { return t->where == where; });
  return found == trainers_.end() ? nullptr : found->get();
}

void World::PerformTrainer(std::size_t index, client::Action action) {
  TrainerNode& trainer = *trainers_[index];
  const ProcessId process = trainer.process;
  if (const auto* open = std::get_if<client::OpenAttach>(&action)) {
    OpenAttach(index, open->stream);
  } else if (auto* send = std::get_if<client::SendAttach>(&action)) {
    const auto link = trainer.links.find(send->stream);
    if (link == trainer.links.end()) return;
    net_.Send(
        link->second, process,
        [this, l = link->second, message = std::move(send->message)] {
          for (std::size_t d = 0; d < dispatchers_.size(); ++d) {
            if (!net_.IsUp(dispatchers_[d]->process)) continue;
            if (dispatchers_[d]->machine->state().FindStream(l) == nullptr) continue;
            return OnDispatcher(d, dispatchers_[d]->machine->OnAttach(l, message, Now()));
          }
        },
        [this, index, stream = send->stream] {
          trainers_[index]->state->OnAttachWritten(stream, net_.now());
          AfterTrainer(index);
        });
  } else if (const auto* batches = std::get_if<client::OpenBatches>(&action)) {
    OpenBatches(index, batches->stream, batches->worker.address);
  } else if (auto* wants = std::get_if<client::SendWants>(&action)) {
    const auto link = trainer.links.find(wants->stream);
    if (link == trainer.links.end()) return;
    net_.Send(
        link->second, process,
        [this, l = link->second, message = std::move(wants->message)] {
          for (std::size_t w = 0; w < workers_.size(); ++w) {
            for (auto& [id, stream] : workers_[w]->streams) {
              if (stream.link != l || !net_.IsUp(workers_[w]->process)) continue;
              stream.wants = message;
              workers_[w]->machine->OnWants(id, message, net_.now());
              return AfterWorker(w);
            }
          }
        },
        [this, index, stream = wants->stream] {
          trainers_[index]->state->OnBatchesWritten(stream, net_.now());
          AfterTrainer(index);
        });
  } else if (const auto* close = std::get_if<client::CloseStream>(&action)) {
    const auto link = trainer.links.find(close->stream);
    if (link == trainer.links.end()) return;
    net_.Close(link->second, process, close->why);
    trainer.links.erase(link);
  }
}

void World::OpenAttach(std::size_t index, client::StreamId stream) {
  TrainerNode& trainer = *trainers_[index];
  const auto closed = [this, index, stream](const Status& why) {
    TrainerNode& node = *trainers_[index];
    if (node.gone) return;
    node.links.erase(stream);
    node.state->OnAttachClosed(stream, why, net_.now());
    AfterTrainer(index);
  };
  const std::optional<std::size_t> d = AnyDispatcher();
  if (!d) {
    return net_.In(trainer.process, net_.UpTo(milliseconds(20)),
                   [closed] { closed(Unavailable("connection refused")); });
  }
  const auto link = std::make_shared<LinkId>(0);
  *link = net_.Open(trainer.process, dispatchers_[*d]->process, closed,
                    [this, d = *d, link](const Status&) {
                      OnDispatcher(d, dispatchers_[d]->machine->OnStreamClosed(*link, Now()));
                    });
  trainer.attach = trainer.links[stream] = *link;
  net_.Send(
      *link, trainer.process,
      [this, d = *d, link] {
        OnDispatcher(d, dispatchers_[d]->machine->OnStreamOpened(*link, false, Now()));
      },
      nullptr, /*may_lose=*/false);
}

/// Its hello comes again on a stream that nobody listens to.
void World::Replay(std::size_t index) {
  const std::optional<std::size_t> d = AnyDispatcher();
  if (!d || trainers_[index]->gone) return;
  // Another dispatcher knows nothing of it, and takes it for a new one.
  if (trainers_[index]->state->session().term != dispatchers_[*d]->term) return;
  const auto link = std::make_shared<LinkId>(0);
  const ProcessId ghost = net_.AddProcess("replayed");
  *link = net_.Open(ghost, dispatchers_[*d]->process, nullptr, [this, d = *d, link](const Status&) {
    OnDispatcher(d, dispatchers_[d]->machine->OnStreamClosed(*link, Now()));
  });
  net_.Send(
      *link, ghost,
      [this, d = *d, link] {
        OnDispatcher(d, dispatchers_[d]->machine->OnStreamOpened(*link, false, Now()));
      },
      nullptr, false);
  net_.Send(
      *link, ghost,
      [this, d = *d, link, message = trainers_[index]->first_message] {
        OnDispatcher(d, dispatchers_[d]->machine->OnAttach(*link, message, Now()));
      },
      nullptr, false);
}

void World::OpenBatches(std::size_t index, client::StreamId stream, const std::string& address) {
  TrainerNode& trainer = *trainers_[index];
  const auto closed = [this, index, stream](const Status& why) {
    TrainerNode& node = *trainers_[index];
    if (node.gone) return;
    node.links.erase(stream);
    node.state->OnBatchesClosed(stream, why, net_.now());
    AfterTrainer(index);
  };
  const auto w = static_cast<std::size_t>(std::stoul(address.substr(1)));
  if (!net_.IsUp(workers_[w]->process)) {
    return net_.In(trainer.process, net_.UpTo(milliseconds(20)),
                   [closed] { closed(Unavailable("connection refused")); });
  }
  const WorkerState::StreamId id = ++last_stream_;
  const LinkId link =
      net_.Open(trainer.process, workers_[w]->process, closed, [this, w, id](const Status& why) {
        WorkerNode& worker = *workers_[w];
        if (worker.streams.erase(id) == 0) return;
        worker.machine->OnStreamClosed(id, why, net_.now());
        AfterWorker(w);
      });
  trainer.links[stream] = link;
  workers_[w]->streams[id].link = link;
  if (!workers_[w]->machine->OnStreamOpened(id, trainer.where).ok()) Fail("a stream is refused");
}

// --- Batches

void World::OnBatch(std::size_t index, client::StreamId stream, const v1::BatchPart& part,
                    const BuildQueue::Task& task, const Digest128& digest) {
  TrainerNode& trainer = *trainers_[index];
  const Time now = net_.now();
  if (trainer.state->OnBatchesPart(stream, part, part.total_bytes(), now)) {
    client::Arrival arrival;
    arrival.lease = task.lease;
    arrival.at = task.at;
    arrival.digest = digest;
    arrival.bytes = part.total_bytes();
    arrival.fingerprint = *Fingerprint::FromString(task.plan);
    arrival.epoch = task.at.epoch;
    arrival.first_example = task.range.first;
    arrival.planned_examples = arrival.examples = task.range.count;
    const client::Verdict verdict = trainer.state->OnBatchesArrival(stream, arrival, now);
    trainer.largest_bytes = std::max(trainer.largest_bytes, arrival.bytes);
    if (verdict == client::Verdict::kWrong) Fail("I2: a batch was not what its lease says");
    if (verdict == client::Verdict::kTaken || verdict == client::Verdict::kDuplicate) {
      const std::uint64_t step = trainer.state->steps().Index(task.at);
      if (verdict == client::Verdict::kTaken) {
        trainer.kept[step] = {task.range, digest};
        trainer.first_digest[step] = digest;
      } else {
        ++counts_.duplicates;
        const auto first = trainer.first_digest.find(step);
        const bool differs = first != trainer.first_digest.end() && first->second != digest;
        // Those that the loop took long ago are not remembered.
        if (differs && step + 32 > trainer.state->next()) ++trainer.differing_copies;
      }
    }
    const std::uint64_t alarms = trainer.state->stats(now).duplicate_mismatches;
    if (alarms < trainer.differing_copies) Fail("I2: copies that differ raised no alarm");
  }
  AfterTrainer(index);
}

bool World::MayTake(const TrainerNode& trainer) const {
  // A step ends when all ranks have made it.
  const Job& job = jobs_[trainer.job];
  const auto& ranks = job.trainers;
  const bool of_present_launch = std::any_of(
      ranks.begin(), ranks.end(), [&](std::size_t t) { return trainers_[t].get() == &trainer; });
  if (!of_present_launch) return false;  // its peers are gone
  if (ranks.size() < trainer.places.world_size) return false;
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](std::size_t t) { return trainers_[t]->taken >= trainer.taken; });
}

void World::Loop(std::size_t index) {
  TrainerNode& trainer = *trainers_[index];
  const Time now = net_.now();
  client::SessionState& state = *trainer.state;
  if (!state.admission() || trainer.finished) return;
  if (!trainer.expected) {
    trainer.expected = trainer.places.Begin(trainer.start);
    if (state.admission()->start != *trainer.expected) {
      Fail(fmt::format("I1: {} begins at {}, expected {}", trainer.where,
                       state.admission()->start.ToString(), trainer.expected->ToString()));
    }
  }
  if (*trainer.expected >= trainer.end) {
    trainer.finished = true;
    counts_.self_leases += state.stats(now).self_leases;
    counts_.mismatches += state.stats(now).duplicate_mismatches;
    return state.Leave(OkStatus(), now);
  }
  if (now < trainer.busy_until || !MayTake(trainer)) {
    trainer.waits_since.reset();
    return state.SetWaiting(false, now);
  }
  if (!state.holds(state.next())) {
    if (!trainer.waits_since) trainer.waits_since = now;
    return state.SetWaiting(true, now);
  }
  if (trainer.waits_since) {
    counts_.longest_wait = std::max(counts_.longest_wait, ToSeconds(now - *trainer.waits_since));
    trainer.waits_since.reset();
    state.SetWaiting(false, now);
  }
  Take(index);
}

void World::Take(std::size_t index) {
  TrainerNode& trainer = *trainers_[index];
  client::SessionState& state = *trainer.state;
  const std::uint64_t step = state.next();
  const Position at = *trainer.expected;
  const ExampleRange range = trainer.places.Of(at, trainer.rank);
  const auto kept = trainer.kept.find(step);
  if (state.steps().At(step) != at || kept == trainer.kept.end() || kept->second.range != range) {
    return Fail(fmt::format("I1: {} takes {} with places {}+{}, expected {} with {}+{}",
                            trainer.where, state.steps().At(step).ToString(),
                            kept == trainer.kept.end() ? 0 : kept->second.range.first,
                            kept == trainer.kept.end() ? 0 : kept->second.range.count,
                            at.ToString(), range.first, range.count));
  }
  const Digest128 expected = DigestOf(state.admission()->fingerprint.ToString(), at.epoch, range);
  const bool wrong_copies_about =
      std::any_of(history_.faults.begin(), history_.faults.end(),
                  [](const Fault& f) { return f.kind == FaultKind::kWrongCopies; });
  if (kept->second.digest != expected && !wrong_copies_about) {
    Fail(fmt::format("I2: the batch at {} is not the plan's", at.ToString()));
  }
  state.OnTaken(net_.now());
  trainer.kept.erase(kept);
  ++trainer.taken;
  ++counts_.batches;
  jobs_[trainer.job].delivered.push_back({at, range, trainer.places.step()});
  trainer.expected = trainer.places.After(at);
  const Duration works = trainer.slow_until > net_.now() ? seconds(1) + net_.UpTo(seconds(2))
                                                         : net_.UpTo(milliseconds(40));
  trainer.busy_until = net_.now() + works;
  net_.In(trainer.process, works, [this, index] { AfterTrainer(index); });
  // Others may have waited for this rank's step.
  for (const std::size_t t : jobs_[trainer.job].trainers) {
    if (t != index) net_.In(trainers_[t]->process, milliseconds(1), [this, t] { AfterTrainer(t); });
  }
}

// --- Checks

void World::CheckTrainer(TrainerNode& trainer) {
  const client::SessionState& state = *trainer.state;
  if (!state.admission() || trainer.finished) return;
  // I5. Windows narrow as batches turn out larger; what was granted before may still come.
  trainer.largest_window = std::max(trainer.largest_window, state.window());
  std::uint64_t granted = 0;
  std::uint64_t bytes = state.held_bytes();
  std::set<Number> copied;
  for (const auto& [id, link] : state.workers().all()) {
    if (link.stream.id == 0) continue;
    granted += std::min(link.room, link.stream.owed);
    bytes += link.credit_left() + link.stream.receiving_bytes;
  }
  for (const auto& [id, lease] : state.leases().all()) {
    if (lease.lease.copy && lease.lacks()) copied.insert(id);
  }
  const std::uint64_t most = trainer.largest_window + 1 + copied.size();
  if (state.held_batches() + granted > most + 1) {
    Fail(fmt::format("I5: {} batches held and {} granted with a window of {} and {} copies",
                     state.held_batches(), granted, trainer.largest_window, copied.size()));
  }
  const std::uint64_t limit = jobs_[trainer.job].setup.prefetch_bytes;
  if (bytes > limit + 2 * std::max<std::uint64_t>(trainer.largest_bytes, 2000)) {
    Fail(fmt::format("I5: {} bytes held or under way, {} to prefetch", bytes, limit));
  }
  CheckWait(trainer);
}

void World::CheckWait(TrainerNode& trainer) {
  if (!CouldBeServed(trainer)) return trainer.servable_since.reset();
  if (!trainer.servable_since) trainer.servable_since = net_.now();
  if (!trainer.waits_since) return;
  const Time since = std::max({*trainer.waits_since, *trainer.servable_since, disturbed_until_});
  if (net_.now() - since <= kLongestWait) return;
  const SessionStats stats = trainer.state->stats(net_.now());
  for (const auto& [id, lease] : trainer.state->leases().all()) {
    Note(fmt::format("lease {}: steps {} to {}, room {}, of {} ({})", id.ToString(), lease.first,
                     lease.end, lease.room, lease.lease.worker.id.ToString(),
                     lease.lease.worker.address));
  }
  for (const auto& [id, link] : trainer.state->workers().all()) {
    Note(fmt::format("worker {} {}: stream {}, owes {}, credit left {}, fails until {:.3f} s ({})",
                     id.ToString(), link.where.address, link.stream.id, link.stream.owed,
                     link.credit_left(), ToSeconds(link.failing_until - began_), link.reason));
  }
  Fail(fmt::format("I9: {} has waited {:.1f} s for {} while a worker could serve it: {} {}",
                   trainer.where, ToSeconds(net_.now() - *trainer.waits_since),
                   trainer.expected->ToString(), WaitCauseName(stats.now), stats.now_worker));
}

bool World::CouldBeServed(const TrainerNode& trainer) const {
  const std::string fingerprint = trainer.state->admission()->fingerprint.ToString();
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
    return net_.IsUp(worker->process) && !net_.StandsStill(worker->process) &&
           worker->slow_until <= net_.now() && worker->machine->FindReady(fingerprint) != nullptr &&
           trainer.state->workers().Find(worker->machine->number()) != nullptr;
  });
}

}  // namespace millrace::sim
