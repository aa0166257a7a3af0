// The workers of a simulated fleet.

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "common/transport/convert/places.h"
#include "tests/sim/fleet/fleet.h"
#include "tests/sim/fleet/fleet_plan.h"

namespace millrace::sim {

using std::chrono::milliseconds;

void FleetWorld::AddWorker() {
  const std::size_t index = workers_.size();
  FleetWorker& worker = workers_.emplace_back();
  worker.out = SerialLink(setup_.link_bytes_per_second);
  WorkerOptions options;
  options.name = fmt::format("w{}", index);
  options.address = fmt::format("w{}:1", index);
  options.host_id = index < setup_.own_workers ? "trainer0" : fmt::format("h{}", index);
  options.dispatcher = "d:1";
  options.memory_bytes = setup_.worker_memory_bytes;
  options.threads = setup_.threads.value_or(setup_.cpus);
  options.tune = !setup_.threads.has_value();
  options.threads_given = setup_.threads.has_value();
  worker.machine = std::make_unique<WorkerMachine>(
      options, fmt::format("w{:015}", index), [this] { return Unit(); }, worker.log);
  // Processes do not begin, and tick, at one moment.
  timeline_.In(About(setup_.starts_within, 1), [this, index] {
    workers_[index].machine->Start(timeline_.now());
    AfterWorker(index);
    TickWorker(index);
  });
}

void FleetWorld::TickWorker(std::size_t index) {
  timeline_.In(kTick, [this, index] {
    FleetWorker& worker = workers_[index];
    worker.machine->Tick(timeline_.now());
    AfterWorker(index);
    if (worker.leaves && worker.machine->Idle()) return StopWorker(index);
    TickWorker(index);
  });
}

void FleetWorld::StopWorker(std::size_t index) {
  FleetWorker& worker = workers_[index];
  worker.machine->Stop(timeline_.now());
  AfterWorker(index);
  worker.up = false;
  if (worker.work) CloseAtDispatcher(*worker.work);
  for (std::size_t link = 0; link < links_.size(); ++link) {
    BatchLink& stream = links_[link];
    if (stream.worker != index || !std::exchange(stream.worker_has, false)) continue;
    timeline_.In(kLearnsOfBreak, [this, link] {
      BatchLink& broken = links_[link];
      if (!std::exchange(broken.consumer_has, false)) return;
      FleetConsumer& consumer = consumers_[broken.consumer];
      consumer.links.erase(broken.of_consumer);
      consumer.machine->OnBatchesClosed(broken.of_consumer, Unavailable("the worker stops"),
                                        timeline_.now());
      AfterConsumer(broken.consumer);
    });
  }
}

void FleetWorld::AfterWorker(std::size_t index) {
  FleetWorker& worker = workers_[index];
  if (!worker.up) return;
  for (auto actions = worker.machine->TakeActions(); !actions.empty();
       actions = worker.machine->TakeActions()) {
    bool wakes = false;
    for (WorkerAction::Any& action : actions) {
      if (std::holds_alternative<WorkerAction::WakeBuilders>(action)) {
        wakes = true;
      } else {
        PerformWorker(index, std::move(action));
      }
    }
    if (wakes) Build(index);
  }
}

void FleetWorld::Build(std::size_t index) {
  FleetWorker& worker = workers_[index];
  while (worker.building < worker.machine->threads()) {
    const std::optional<BuildQueue::Task> task = worker.machine->NextBuild(timeline_.now());
    if (!task) return;
    StartBuild(index, *task);
  }
}

void FleetWorld::StartBuild(std::size_t index, const BuildQueue::Task& task) {
  FleetWorker& worker = workers_[index];
  ++worker.building;
  ++builds_;
  ++worker.builds;
  if (setup_.window_units > 0) {
    // No fleet comes to a second epoch.
    const std::uint64_t window = task.range.first / setup_.window_units;
    windows_.insert(window);
    fetches_.emplace(window, index);
  }
  // Threads beyond the CPUs share them.
  const double crowd = std::max(1.0, worker.building / (setup_.cpus * worker.cpu_share));
  const std::chrono::duration<double> mean = std::chrono::duration<double>(setup_.build) * crowd *
                                             worker.slower * NatureOf(task.at) *
                                             setup_.OfJob(JobOfPlan(task.plan)).build;
  const Duration takes = About(std::chrono::duration_cast<Duration>(mean), setup_.build_spread);
  timeline_.In(takes, [this, index, task, takes] {
    FleetWorker& builder = workers_[index];
    --builder.building;
    if (!builder.up) return;
    const double seconds = ToSeconds(takes);
    builder.machine->OnBuilt(task, batch_, setup_.batch_bytes, seconds, {{"closure", seconds}},
                             timeline_.now());
    AfterWorker(index);
    Build(index);
    AfterWorker(index);
  });
}

void FleetWorld::PerformWorker(std::size_t index, WorkerAction::Any action) {
  FleetWorker& worker = workers_[index];
  if (const auto* batch = std::get_if<WorkerAction::SendBatch>(&action)) {
    SendBatch(*batch);
  } else if (const auto* control = std::get_if<WorkerAction::SendControl>(&action)) {
    SendFragment(control->stream - 1, control->message, 100, nullptr);
  } else if (const auto* close = std::get_if<WorkerAction::CloseStream>(&action)) {
    Fail(fmt::format("worker {} closed a stream: {}", index, close->why.message()));
  } else if (const auto* open = std::get_if<WorkerAction::OpenWork>(&action)) {
    worker.work = OpenAtDispatcher(true, index, open->attempt);
  } else if (auto* send = std::get_if<WorkerAction::SendWork>(&action)) {
    (*send->report.mutable_datasets())[kFleetDataset] = FleetDataset();
    timeline_.In(setup_.latency, [this, link = *worker.work, report = std::move(send->report)] {
      OnDispatcher(dispatcher_->OnWork(link + 1, report, Now()));
    });
    timeline_.In(Duration{0}, [this, index, attempt = send->attempt] {
      workers_[index].machine->OnWorkWritten(attempt, timeline_.now());
      AfterWorker(index);
    });
  } else if (const auto* bad = std::get_if<WorkerAction::CloseWork>(&action)) {
    if (!dispatcher_away_) Fail(fmt::format("worker {} left the dispatcher: {}", index, bad->why.message()));
  } else if (const auto* compile = std::get_if<WorkerAction::CompilePlan>(&action)) {
    timeline_.In(About(milliseconds(100), 0.5), [this, index, spec = compile->spec] {
      WorkerMachine::ReadyPlan ready{nullptr, std::string(32, '5'), spec.fingerprint(), ""};
      workers_[index].machine->OnPlan(spec.fingerprint(), std::move(ready), timeline_.now());
      AfterWorker(index);
    });
  }
}

void FleetWorld::SendBatch(const WorkerAction::SendBatch& action) {
  const BuildQueue::Task& task = action.batch.task;
  v1::BatchFragment fragment;
  ToProto(task.at, fragment.mutable_at());
  fragment.set_total_bytes(action.batch.bytes);
  fragment.set_credit_used(action.batch.credit_used);
  fragment.set_batches_sent(action.batch.batches_sent);
  SendFragment(action.stream - 1, fragment, action.batch.bytes, &task);
}

void FleetWorld::SendFragment(std::size_t link, const v1::BatchFragment& fragment,
                              std::uint64_t bytes, const BuildQueue::Task* task) {
  BatchLink& stream = links_[link];
  FleetWorker& worker = workers_[stream.worker];
  const Time leaves = worker.out.Pass(timeline_.now(), bytes);
  const Time arrives = consumers_[stream.consumer].in.Pass(leaves + setup_.latency, bytes);
  stream.last_arrival = std::max(stream.last_arrival, arrives);
  timeline_.At(leaves, [this, link] {
    const BatchLink& sent = links_[link];
    if (!sent.worker_has) return;
    workers_[sent.worker].machine->OnSent(link + 1, timeline_.now());
    AfterWorker(sent.worker);
  });
  std::optional<BuildQueue::Task> of_batch;
  if (task != nullptr) of_batch = *task;
  timeline_.At(stream.last_arrival, [this, link, fragment, bytes, of_batch = std::move(of_batch)] {
    OnFragment(link, fragment, bytes, of_batch ? &*of_batch : nullptr);
  });
}

}  // namespace millrace::sim
