// The workers of a simulated history.

#include <algorithm>

#include <fmt/core.h>

#include "tests/sim/plugins.h"
#include "tests/sim/world.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

std::optional<AtLink> World::WorkerAt(LinkId link) const {
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (!net_.IsUp(workers_[w]->process)) continue;
    for (const auto& [id, stream] : workers_[w]->streams) {
      if (stream.link == link) return AtLink{w, id};
    }
  }
  return std::nullopt;
}

void World::StartWorker(std::size_t index) {
  WorkerNode& node = *workers_[index];
  node = WorkerNode();
  node.process = net_.AddProcess(fmt::format("worker {}", index));
  WorkerOptions options;
  options.name = fmt::format("w{}", index);
  options.address = fmt::format("w{}:1", index);  // that of the process whose place it takes
  options.host_id = fmt::format("h{}", index);
  options.dispatcher = "d:1";
  options.threads = static_cast<int>(history_.builders);
  options.memory_bytes = history_.memory_bytes;
  node.machine = std::make_unique<WorkerMachine>(
      options, fmt::format("{:016}", ++processes_), [this] { return net_.Unit(); }, quiet_);
  node.machine->Start(net_.now());
  AfterWorker(index);
  TickWorker(index, node.process);
}

void World::StopWorker(std::size_t index, Duration restart_after) {
  WorkerNode& node = *workers_[index];
  if (!net_.IsUp(node.process)) return;
  Note(fmt::format("worker {} dies", index));
  net_.Kill(node.process);
  net_.After(restart_after, [this, index] { StartWorker(index); });
}

void World::TickWorker(std::size_t index, ProcessId process) {
  net_.In(process, milliseconds(50), [this, index, process] {
    workers_[index]->machine->Tick(net_.now());
    AfterWorker(index);
    TickWorker(index, process);
  });
}

void World::AfterWorker(std::size_t index) {
  WorkerNode& node = *workers_[index];
  const ProcessId process = node.process;
  auto actions = node.machine->TakeActions();
  do {
    for (WorkerAction::Any& action : actions) {
      if (Crashes(node.crash, process)) return StopWorker(index, net_.UpTo(seconds(3)));
      PerformWorker(index, std::move(action));
    }
    ForgetUnsharable(node);
    while (node.building < history_.builders) {
      const std::optional<BuildQueue::Task> task = node.machine->NextBuild(net_.now());
      if (!task) break;
      StartBuild(index, *task);
    }
    while (node.building < history_.builders) {
      const std::optional<MeasureJob> job = node.machine->NextMeasure();
      if (!job) break;
      StartMeasure(index, *job);
    }
    actions = node.machine->TakeActions();
  } while (!actions.empty());
  CheckMemory(node);
}

void World::StartBuild(std::size_t index, const BuildQueue::Task& task) {
  WorkerNode& node = *workers_[index];
  CheckAsked(node, task);
  CheckBuiltOnce(node, task);
  ++node.building;
  const Duration takes = node.slow_until > net_.now() ? seconds(1) + net_.UpTo(seconds(3))
                                                      : net_.UpTo(milliseconds(30));
  net_.In(node.process, takes, [this, index, task, takes] {
    WorkerNode& builder = *workers_[index];
    --builder.building;
    const bool counts = builder.builds.erase(task.build) > 0;
    // Not every batch reads the file that is bad.
    const Status intact = worker_data_[index].CheckIntact(builder.plans.at(task.plan));
    if (!intact.ok() && net_.Chance(0.5)) {
      builder.machine->OnBuildFailed(task, intact, net_.now());
      return AfterWorker(index);
    }
    if (const auto example = builder.plans.at(task.plan).FailsOf(index, task.range)) {
      ++counts_.code_failures;
      builder.machine->OnBuildFailed(task, FailureOfCode(*example), net_.now());
      return AfterWorker(index);
    }
    const std::uint64_t bytes = BytesOf(DigestOf(task.plan, task.at.epoch, task.range));
    auto batch = std::make_shared<const BuiltBatch>();
    if (counts) builder.built[{task.plan, task.at.epoch, task.range}] = batch;
    builder.machine->OnBuilt(task, std::move(batch), bytes, ToSeconds(takes), {{"closure", 0.001}},
                             net_.now());
    AfterWorker(index);
  });
}

void World::CheckMemory(const WorkerNode& node) {
  // One batch of each builder and one of each stream may lie beyond the budget, because the next
  // batch of a consumer is never refused.
  const BuildQueue& queue = node.machine->queue();
  const std::uint64_t bound =
      history_.memory_bytes + (history_.builders + node.streams.size()) * 2000;
  if (queue.built_bytes() > bound) {
    Fail(fmt::format("I5: a worker holds {} bytes of batches with a budget of {}",
                     queue.built_bytes(), history_.memory_bytes));
  }
  if (queue.kept_bytes() > 0 && queue.built_bytes() + queue.kept_bytes() > history_.memory_bytes) {
    Fail(fmt::format("I5: a worker keeps {} bytes beside {} with a budget of {}",
                     queue.kept_bytes(), queue.built_bytes(), history_.memory_bytes));
  }
}

void World::CheckAsked(const WorkerNode& node, const BuildQueue::Task& task) {
  const auto stream = node.streams.find(task.stream);
  if (stream == node.streams.end()) return Fail("I6: a batch is built for a stream that is gone");
  for (const v1::Run& run : stream->second.wants.runs()) {
    for (std::uint32_t k = 0; k < run.steps(); ++k) {
      if (PositionOf(run, k) == task.at) return;
    }
  }
  Fail(fmt::format("I6: the batch at {} is built unasked", task.at.ToString()));
}

void World::PerformWorker(std::size_t index, WorkerAction::Any action) {
  WorkerNode& node = *workers_[index];
  const ProcessId process = node.process;
  if (const auto* batch = std::get_if<WorkerAction::SendBatch>(&action)) {
    SendBatch(index, *batch);
  } else if (auto* control = std::get_if<WorkerAction::SendControl>(&action)) {
    const auto stream = node.streams.find(control->stream);
    if (stream == node.streams.end()) return;
    const LinkId link = stream->second.link;
    net_.Send(
        link, process,
        [this, link, index, message = std::move(control->message)] {
          const std::optional<AtLink> to = TrainerAt(link);
          if (!to) return;
          if (message.has_refused())
            OnRefusal(*trainers_[to->index], index, to->stream, message.refused());
          if (message.has_alive()) trainers_[to->index]->spoken.insert(to->stream);
          trainers_[to->index]->state->OnBatchesFragment(to->stream, message, 0, net_.now());
          AfterTrainer(to->index);
        },
        [this, index, id = control->stream] {
          workers_[index]->machine->OnSent(id, net_.now());
          AfterWorker(index);
        });
  } else if (const auto* close = std::get_if<WorkerAction::CloseStream>(&action)) {
    const auto stream = node.streams.find(close->stream);
    if (stream == node.streams.end()) return;
    net_.Close(stream->second.link, process, close->why);
    node.streams.erase(stream);
  } else if (const auto* open = std::get_if<WorkerAction::OpenWork>(&action)) {
    OpenWork(index, open->attempt);
  } else if (auto* send = std::get_if<WorkerAction::SendWork>(&action)) {
    for (auto& [dataset, state] : worker_data_[index].States()) {
      if (std::find(send->list_files.begin(), send->list_files.end(), dataset) !=
          send->list_files.end()) {
        for (v1::FileEntry& file : worker_data_[index].Files(dataset)) {
          *state.add_file_list() = std::move(file);
        }
      }
      (*send->report.mutable_datasets())[dataset] = state;
    }
    const LinkId link = node.work;
    const BuildQueue& queue = node.machine->queue();
    if (send->report.owed() > node.streams.size() && queue.pending() == 0 &&
        queue.built_bytes() == 0 && node.building == 0 && node.machine->draining()) {
      Fail("a worker that drains counts what is sent as owed");
    }
    net_.Send(
        link, process,
        [this, link, report = std::move(send->report)] {
          if (const std::optional<std::size_t> d = DispatcherAt(link)) {
            OnDispatcher(*d, dispatchers_[*d]->machine->OnWork(link, report, Now()));
          }
        },
        [this, index, attempt = send->attempt] {
          workers_[index]->machine->OnWorkWritten(attempt, net_.now());
          AfterWorker(index);
        });
  } else if (const auto* bad = std::get_if<WorkerAction::CloseWork>(&action)) {
    net_.Close(node.work, process, bad->why);
    node.work = 0;
  } else if (const auto* compile = std::get_if<WorkerAction::CompilePlan>(&action)) {
    CompileAtWorker(index, compile->spec);
  } else if (std::holds_alternative<WorkerAction::SnapshotFiles>(action)) {
    SnapshotFiles(index);
  }
}

void World::OpenWork(std::size_t index, std::uint64_t attempt) {
  WorkerNode& node = *workers_[index];
  const ProcessId process = node.process;
  node.attempt = attempt;
  const auto closed = [this, index, attempt](const Status& why) {
    workers_[index]->machine->OnWorkClosed(attempt, why, net_.now());
    AfterWorker(index);
  };
  const std::optional<std::size_t> d = AnyDispatcher();
  if (!d) {
    node.work = 0;
    return net_.In(process, net_.UpTo(milliseconds(20)),
                   [closed] { closed(Unavailable("connection refused")); });
  }
  const ProcessId dispatcher = dispatchers_[*d]->process;
  const auto link = std::make_shared<LinkId>(0);
  *link = net_.Open(process, dispatcher, closed, [this, d = *d, link](const Status&) {
    OnDispatcher(d, dispatchers_[d]->machine->OnStreamClosed(*link, Now()));
  });
  node.work = *link;
  net_.Send(
      *link, process,
      [this, d = *d, link] {
        OnDispatcher(d, dispatchers_[d]->machine->OnStreamOpened(*link, true, Now()));
      },
      nullptr, /*control=*/false);
}

void World::SendBatch(std::size_t index, const WorkerAction::SendBatch& action) {
  WorkerNode& node = *workers_[index];
  const auto stream = node.streams.find(action.stream);
  if (stream == node.streams.end()) return;
  const BuildQueue::Task& task = action.batch.task;
  const v1::WantList& wants = stream->second.wants;
  if (wants.has_until() && task.at >= FromProto(wants.until()) &&
      task.at > FromProto(wants.next())) {
    Fail(fmt::format("I5: the batch at {} is sent, beyond what may be", task.at.ToString()));
  }
  // The bytes of a batch are those of the data that the worker has.
  Fingerprint built = *Fingerprint::FromString(task.plan);
  built.dataset = node.plans.at(task.plan).digest;
  Digest128 digest = DigestOf(built.ToString(), task.at.epoch, task.range);
  v1::BatchFragment fragment;
  ToProto(task.at, fragment.mutable_at());
  fragment.set_total_bytes(action.batch.bytes);
  fragment.set_credit_used(action.batch.credit_used);
  fragment.set_batches_sent(action.batch.batches_sent);
  if (node.wrong_until > net_.now()) digest.high ^= 1 + index;
  if (action.batch.shared) ++counts_.shared;
  const LinkId link = stream->second.link;
  net_.Send(
      link, node.process,
      [this, link, fragment, task, digest, on_its_way = action.batch.batch] {
        if (const std::optional<AtLink> to = TrainerAt(link)) {
          OnBatch(to->index, to->stream, fragment, task, digest);
        }
      },
      [this, index, id = action.stream] {
        workers_[index]->machine->OnSent(id, net_.now());
        AfterWorker(index);
      });
}

}  // namespace millrace::sim
