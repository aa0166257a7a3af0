// The trainers of a simulated history: their launches and their streams. trainer_loop.cc has their
// loops. If a trainer dies, all ranks of its job are launched again from the job's checkpoint.

#include <algorithm>

#include <fmt/core.h>

#include "common/base/protocol_version.h"
#include "tests/sim/plugins.h"
#include "tests/sim/world.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

std::optional<AtLink> World::TrainerAt(LinkId link) const {
  for (std::size_t t = 0; t < trainers_.size(); ++t) {
    if (!net_.IsUp(trainers_[t]->process)) continue;
    for (const auto& [stream, l] : trainers_[t]->links) {
      if (l == link) return AtLink{t, stream};
    }
  }
  return std::nullopt;
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
  // An empty entry tells CheckCovered that steps have the size of this launch from here on.
  job.delivered.push_back({start, {start.example, 0}, job.places.step()});
  Note(fmt::format("{} is launched at {}, world size {}", job.name, start.ToString(), world_size));
  for (std::uint32_t seat = 0; seat < job.seats(); ++seat) {
    net_.After(net_.UpTo(seconds(1)), [this, index, seat, start, launch = job.launches] {
      if (jobs_[index].launches == launch) StartTrainer(index, seat, start);
    });
  }
}

void World::StartTrainer(std::size_t job_index, std::uint32_t seat, Position start) {
  Job& job = jobs_[job_index];
  const std::size_t index = trainers_.size();
  job.trainers.push_back(index);
  trainers_.push_back(std::make_unique<TrainerNode>());
  TrainerNode& trainer = *trainers_.back();
  trainer.process = net_.AddProcess(fmt::format("trainer {}", index));
  trainer.job = job_index;
  trainer.rank = seat % job.places.world_size;
  trainer.replica = seat / job.places.world_size;
  trainer.places = job.places;
  trainer.start = start;
  trainer.end = {job.setup.end_epoch, 0};
  trainer.started = net_.now();
  trainer.where = fmt::format("host{}:{}", index, index);

  client::SessionMachineOptions options;
  options.address = "d:1";
  options.prefetch_bytes = job.setup.prefetch_bytes;
  options.connect_timeout = std::chrono::hours(1);
  v1::Hello& hello = options.hello;
  hello.set_protocol(kProtocol);
  hello.set_job(job.name);
  hello.set_rank(trainer.rank);
  hello.set_replica(trainer.replica);
  hello.set_world_size(job.places.world_size);
  hello.mutable_pipeline()->set_yaml(fmt::format(
      "dataset={}\nexamples={}\nsize={}\nglobal_size={}\nkeep={}\nunit_rows={}\n{}{}{}{}",
      IdsOf(job.setup.datasets), job.setup.examples, job.setup.size, job.setup.global_size,
      job.setup.keep ? 1 : 0, job.setup.unit_rows, job.setup.excludes ? "exclude=a.bin\n" : "",
      job.setup.measured > 0 ? fmt::format("measures={}\n", job.setup.measured) : "",
      job.setup.window > 0 ? fmt::format("window={}\n", job.setup.window) : "",
      PluginLines(job.setup)));
  ToProto(start, hello.mutable_start());
  hello.set_nonce(fmt::format("{:016}", ++processes_));
  hello.set_where(trainer.where);
  hello.set_host_id(fmt::format("h{}", index));
  hello.set_epochs(static_cast<std::uint32_t>(job.setup.end_epoch - start.epoch));
  *trainer.first_message.mutable_hello() = hello;
  trainer.state = std::make_unique<client::SessionMachine>(
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
      // The zombie comes back. Some time later it is killed.
      net_.After(still + net_.UpTo(kZombieLives), [this, t] {
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

/// Launches the job again, from the checkpoint of its slowest rank or from an earlier one.
void World::Relaunch(std::size_t index) {
  Job& job = jobs_[index];
  if (job.relaunching) return;
  job.relaunching = true;
  ++job.launches;  // trainers of the last launch that have not begun never will
  ++counts_.relaunches;
  Position checkpoint =
      job.trainers.size() < job.seats() ? job.launched_at : Position{~std::uint64_t{0}, 0};
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
    if (again.done) return;  // a zombie of an earlier launch has met an error of its plugin
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
    } else if (job.trainers.size() == job.seats() &&
               std::all_of(job.trainers.begin(), job.trainers.end(), is(&TrainerNode::finished))) {
      job.done = true;
      Note(fmt::format("{} is done", job.name));
      CheckCovered(job);
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
    if (winner->numbered && *winner->numbered < trainer.started && trainer.numbered_by_leader) {
      Fail(fmt::format("I4: {} was taken over by {}, which had its number before the other began",
                       trainer.where, winner->where));
    }
  } else if (status.code() == StatusCode::kFailedPrecondition &&
             status.message().find("is held by") != std::string::npos) {
    ++counts_.refused;
  } else if (IsLossOfData(jobs_[trainer.job], status)) {
    ++counts_.lost_data;
  } else if (IsFailureOfCode(trainer, status)) {
    EndFailed(trainer);
  } else {
    Fail("a session ended with: " + status.message());
  }
}

const TrainerNode* World::FindTrainer(const std::string& where) const {
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
          if (const std::optional<std::size_t> d = DispatcherAt(l)) {
            OnDispatcher(*d, dispatchers_[*d]->machine->OnAttach(l, message, Now()));
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
    CheckWants(trainer, *wants);
    net_.Send(
        link->second, process,
        [this, l = link->second, message = std::move(wants->message)] {
          const std::optional<AtLink> to = WorkerAt(l);
          if (!to) return;
          WorkerNode& worker = *workers_[to->index];
          worker.streams.at(to->stream).wants = message;
          worker.machine->OnWants(to->stream, message, net_.now());
          AfterWorker(to->index);
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

void World::CheckWants(const TrainerNode& trainer, const client::SendWants& wants) {
  std::uint64_t steps = 0;
  for (const v1::Run& run : wants.message.runs()) steps += run.steps();
  if (steps > 0 && !trainer.spoken.contains(wants.stream)) {
    Fail(fmt::format("J3: {} asks a worker that has not spoken", trainer.where));
  }
  if (wants.message.runs_size() > 256 || steps > 4096) {
    Fail(fmt::format("J5: {} asks for {} steps in {} runs", trainer.where, steps,
                     wants.message.runs_size()));
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
      nullptr, /*control=*/false);
}

/// Sends the trainer's hello again, on a stream to which nobody listens.
void World::Replay(std::size_t index) {
  const std::optional<std::size_t> d = AnyDispatcher();
  if (!d || trainers_[index]->gone) return;
  // A dispatcher of another term would not know the session and take it for a new one.
  if (trainers_[index]->state->session().number().term != dispatchers_[*d]->term) return;
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
  const WorkerMachine::StreamId id = ++last_stream_;
  const LinkId link =
      net_.Open(trainer.process, workers_[w]->process, closed, [this, w, id](const Status& why) {
        WorkerNode& worker = *workers_[w];
        if (worker.streams.erase(id) == 0) return;
        worker.machine->OnStreamClosed(id, why, net_.now());
        AfterWorker(w);
      });
  trainer.links[stream] = link;
  workers_[w]->streams[id].link = link;
  if (!workers_[w]->machine->OnStreamOpened(id, {trainer.where}).ok()) Fail("a stream is refused");
}

}  // namespace millrace::sim
