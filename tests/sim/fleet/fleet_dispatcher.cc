// The dispatcher of a simulated fleet.

#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "tests/sim/fleet/fleet.h"
#include "tests/sim/fleet/fleet_plan.h"

namespace millrace::sim {

void FleetWorld::StartDispatcher() {
  std::vector<v1::JobRecord> records;
  for (std::uint32_t job = 0; job < setup_.jobs && !setup_.cold; ++job) {
    v1::JobRecord& record = records.emplace_back();
    record.set_name(fmt::format("job{}", job));
    *record.mutable_pipeline() = FleetPipeline(setup_, job);
    record.set_fingerprint(CompileFleetPlan(record.pipeline())->fingerprint().ToString());
    record.set_world_size(setup_.ranks);
    record.set_started_unix_seconds(kUnixSeconds - 1000);
  }
  dispatcher_ = std::make_unique<DispatcherMachine>(dispatcher_options_, /*term=*/kUnixSeconds,
                                                    std::move(records), Now());
  OnDispatcher(dispatcher_->OnDataset(kFleetDataset, FleetDataset(), Now()));
  TickDispatcher();
}

void FleetWorld::StopDispatcher() { dispatcher_away_ = true; }

void FleetWorld::TickDispatcher() {
  timeline_.In(dispatcher_options_.tick, [this] {
    OnDispatcher(dispatcher_->OnTick(Now()));
    TickDispatcher();
  });
}

std::size_t FleetWorld::OpenAtDispatcher(bool of_worker, std::size_t index, std::uint64_t own) {
  const std::size_t link = dispatcher_links_.size();
  dispatcher_links_.push_back({of_worker, index, own});
  timeline_.In(setup_.latency, [this, link, of_worker] {
    OnDispatcher(dispatcher_->OnStreamOpened(link + 1, of_worker, Now()));
  });
  return link;
}

void FleetWorld::CloseAtDispatcher(std::size_t link) {
  if (!std::exchange(dispatcher_links_[link].open, false)) return;
  timeline_.In(setup_.latency,
               [this, link] { OnDispatcher(dispatcher_->OnStreamClosed(link + 1, Now())); });
}

void FleetWorld::OnDispatcher(Actions actions) {
  if (dispatcher_away_) return;
  for (Action& action : actions) {
    if (auto* attach = std::get_if<millrace::SendAttach>(&action)) {
      timeline_.In(
          setup_.latency, [this, stream = attach->stream, message = std::move(attach->message)] {
            const DispatcherLink& link = dispatcher_links_[stream - 1];
            if (!link.open) return;
            consumers_[link.index].machine->OnAttachMessage(link.own, message, timeline_.now());
            AfterConsumer(link.index);
          });
    } else if (auto* work = std::get_if<millrace::SendWork>(&action)) {
      timeline_.In(
          setup_.latency, [this, stream = work->stream, message = std::move(work->message)] {
            const DispatcherLink& link = dispatcher_links_[stream - 1];
            if (!link.open) return;
            workers_[link.index].machine->OnWorkResponse(link.own, message, timeline_.now());
            AfterWorker(link.index);
          });
    } else if (const auto* close = std::get_if<millrace::CloseStream>(&action)) {
      timeline_.In(setup_.latency, [this, stream = close->stream, why = close->status] {
        DispatcherLink& link = dispatcher_links_[stream - 1];
        if (!std::exchange(link.open, false)) return;
        // No session and no worker that stays has a reason to be sent away.
        if (!link.of_worker || !workers_[link.index].leaves) {
          Fail("the dispatcher closed a stream: " + why.message());
        }
      });
    } else if (const auto* compile = std::get_if<millrace::CompilePlan>(&action)) {
      timeline_.In(std::chrono::milliseconds(50), [this, plan = *compile] {
        OnDispatcher(dispatcher_->OnPlanCompiled(plan.key, CompileFleetPlan(plan.pipeline), Now()));
      });
    } else if (const auto* commit = std::get_if<CommitRecord>(&action)) {
      timeline_.In(std::chrono::milliseconds(5), [this, record = commit->record] {
        OnDispatcher(dispatcher_->OnRecordCommitted(record, OkStatus(), Now()));
      });
    }
  }
}

}  // namespace millrace::sim
