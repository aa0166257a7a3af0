// The consumers of a simulated fleet: sessions and training loops.

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "common/base/protocol_version.h"
#include "common/transport/convert/places.h"
#include "tests/sim/fleet/fleet.h"
#include "tests/sim/fleet/fleet_plan.h"

namespace millrace::sim {

using std::chrono::milliseconds;

void FleetWorld::AddConsumer(std::size_t job, std::uint32_t rank) {
  const std::size_t index = consumers_.size();
  FleetConsumer& consumer = consumers_.emplace_back();
  consumer.job = job;
  consumer.in = SerialLink(setup_.link_bytes_per_second);
  jobs_[job].consumers.push_back(index);

  client::SessionMachineOptions options;
  options.address = "d:1";
  options.prefetch_bytes = setup_.ahead_bytes.value_or(setup_.prefetch_bytes);
  options.tune = !setup_.ahead_bytes.has_value();
  v1::Hello& hello = options.hello;
  hello.set_protocol(kProtocol);
  hello.set_job(fmt::format("job{}", job));
  hello.set_rank(rank);
  hello.set_world_size(setup_.ranks);
  hello.set_priority(setup_.OfJob(job).priority);
  *hello.mutable_pipeline() = FleetPipeline(setup_, job);
  ToProto(Position{}, hello.mutable_start());
  hello.set_nonce(fmt::format("c{:015}", index));
  hello.set_where(fmt::format("c{}:1", index));
  hello.set_host_id(fmt::format("trainer{}", index));
  consumer.machine = std::make_unique<client::SessionMachine>(
      std::move(options), [this] { return Unit(); }, consumer.log);
  // Loops begin when the first workers are there.
  const Duration apart = setup_.apart * job;
  timeline_.In(std::chrono::seconds(2) + apart + About(milliseconds(500), 1), [this, index] {
    FleetConsumer& begins = consumers_[index];
    begins.machine->Start(timeline_.now());
    AfterConsumer(index);
  });
}

void FleetWorld::AfterConsumer(std::size_t index) {
  FleetConsumer& consumer = consumers_[index];
  const auto perform = [&] {
    for (client::Action& action : consumer.machine->TakeActions()) {
      PerformConsumer(index, std::move(action));
    }
  };
  perform();
  if (!consumer.machine->status().ok()) {
    return Fail("a session ended: " + consumer.machine->status().message());
  }
  TryTake(index);
  perform();
  consumer.largest_held = std::max(consumer.largest_held, consumer.machine->held_bytes());
  PlanTick(index);
}

void FleetWorld::PlanTick(std::size_t index) {
  FleetConsumer& consumer = consumers_[index];
  const Time due = std::max(consumer.machine->NextTick(), timeline_.now() + milliseconds(1));
  if (consumer.tick && *consumer.tick <= due) return;
  consumer.tick = due;
  timeline_.At(due, [this, index, due] {
    FleetConsumer& ticked = consumers_[index];
    if (ticked.tick != due) return;
    ticked.tick.reset();
    // Events since then may have done what was due.
    if (ticked.machine->NextTick() > due) return PlanTick(index);
    ticked.machine->Tick(due);
    AfterConsumer(index);
  });
}

void FleetWorld::PerformConsumer(std::size_t index, client::Action action) {
  FleetConsumer& consumer = consumers_[index];
  if (const auto* open = std::get_if<client::OpenAttach>(&action)) {
    consumer.attach = OpenAtDispatcher(false, index, open->stream);
  } else if (auto* send = std::get_if<client::SendAttach>(&action)) {
    timeline_.In(setup_.latency,
                 [this, link = *consumer.attach, message = std::move(send->message)] {
                   OnDispatcher(dispatcher_->OnAttach(link + 1, message, Now()));
                 });
    timeline_.In(Duration{0}, [this, index, stream = send->stream] {
      consumers_[index].machine->OnAttachWritten(stream, timeline_.now());
      AfterConsumer(index);
    });
  } else if (const auto* batches = std::get_if<client::OpenBatches>(&action)) {
    OpenBatches(index, *batches);
  } else if (auto* wants = std::get_if<client::SendWants>(&action)) {
    const auto found = consumer.links.find(wants->stream);
    if (found == consumer.links.end()) return;
    timeline_.In(setup_.latency, [this, link = found->second, message = std::move(wants->message)] {
      const BatchLink& stream = links_[link];
      if (!stream.worker_has) return;
      workers_[stream.worker].machine->OnWants(link + 1, message, timeline_.now());
      AfterWorker(stream.worker);
    });
    timeline_.In(Duration{0}, [this, index, stream = wants->stream] {
      consumers_[index].machine->OnBatchesWritten(stream, timeline_.now());
      AfterConsumer(index);
    });
  } else if (const auto* close = std::get_if<client::CloseStream>(&action)) {
    const auto found = consumer.links.find(close->stream);
    if (found == consumer.links.end()) return;
    links_[found->second].consumer_has = false;
    timeline_.In(setup_.latency, [this, link = found->second, why = close->why] {
      BatchLink& stream = links_[link];
      if (!std::exchange(stream.worker_has, false)) return;
      workers_[stream.worker].machine->OnStreamClosed(link + 1, why, timeline_.now());
      AfterWorker(stream.worker);
    });
    consumer.links.erase(found);
  }
}

void FleetWorld::OpenBatches(std::size_t index, const client::OpenBatches& action) {
  const std::size_t worker = std::stoul(action.worker.address.substr(1));
  if (!workers_[worker].up) {
    return timeline_.In(setup_.latency, [this, index, stream = action.stream] {
      consumers_[index].machine->OnBatchesClosed(stream, Unavailable("connection refused"),
                                                 timeline_.now());
      AfterConsumer(index);
    });
  }
  const std::size_t link = links_.size();
  links_.push_back({.consumer = index, .of_consumer = action.stream, .worker = worker});
  consumers_[index].links[action.stream] = link;
  if (!workers_[worker].machine->OnStreamOpened(link + 1, {fmt::format("c{}", index)}).ok()) {
    Fail("a worker refused a stream");
  }
}

void FleetWorld::OnFragment(std::size_t link, const v1::BatchFragment& fragment,
                            std::uint64_t bytes, const BuildQueue::Task* task) {
  const BatchLink& stream = links_[link];
  if (!stream.consumer_has) return;
  client::SessionMachine& session = *consumers_[stream.consumer].machine;
  const Time now = timeline_.now();
  if (task == nullptr) {
    session.OnBatchesFragment(stream.of_consumer, fragment, 0, now);
  } else if (session.OnBatchesFragment(stream.of_consumer, fragment, bytes, now)) {
    client::Arrival arrival;
    arrival.at = task->at;
    arrival.digest = {task->at.epoch, task->at.example};
    arrival.bytes = bytes;
    arrival.fingerprint = *Fingerprint::FromString(task->plan);
    arrival.epoch = task->at.epoch;
    arrival.first_example = task->range.first;
    arrival.counts.examples = arrival.planned_examples = task->range.count;
    if (session.OnBatchesArrival(stream.of_consumer, arrival, now) == client::Verdict::kWrong) {
      Fail("a batch was not that of its step");
    }
  }
  AfterConsumer(stream.consumer);
}

// --- The loop

void FleetWorld::TryTake(std::size_t index) {
  FleetConsumer& consumer = consumers_[index];
  client::SessionMachine& session = *consumer.machine;
  if (consumer.loop != FleetConsumer::Loop::kWaits || !session.admission()) return;
  const Time now = timeline_.now();
  if (!session.holds(session.next())) {
    if (!consumer.waits_since) {
      consumer.waits_since = now;
      session.SetWaiting(true, now);
    }
    return;
  }
  session.OnTaken(now);
  if (consumer.waits_since) {
    consumer.waited_seconds += ToSeconds(now - *consumer.waits_since);
    consumer.waits_since.reset();
    session.SetWaiting(false, now);
  }
  ++consumer.taken;
  consumer.longest_gap =
      std::max(consumer.longest_gap, now - std::max(consumer.last_taken, marked_));
  consumer.last_taken = now;
  consumer.loop = FleetConsumer::Loop::kSteps;
  const auto step = std::chrono::duration_cast<Duration>(step_ * setup_.OfJob(consumer.job).step);
  timeline_.In(About(step, setup_.step_spread), [this, index] { EndStep(index); });
}

void FleetWorld::EndStep(std::size_t index) {
  FleetConsumer& consumer = consumers_[index];
  FleetJob& job = jobs_[consumer.job];
  consumer.loop = FleetConsumer::Loop::kAtBarrier;
  if (++job.at_barrier < job.consumers.size()) return;
  job.at_barrier = 0;
  for (const std::size_t rank : job.consumers) consumers_[rank].loop = FleetConsumer::Loop::kWaits;
  for (const std::size_t rank : job.consumers) AfterConsumer(rank);
}

}  // namespace millrace::sim
