// `millrace drain`: empties a worker, so that it can be taken away. `millrace undrain` takes that
// back.

#include <chrono>
#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/commands/connection.h"
#include "client/cli/numbers.h"
#include "client/cli/stop_signals.h"
#include "common/system/stop_wait.h"

namespace millrace::cli {
namespace {

constexpr double kDrainAnswerSeconds = 10;
constexpr std::chrono::duration<double> kLookEvery{0.2};
constexpr std::chrono::seconds kUndrainWithin{5};

struct DrainArguments {
  Connection connection;
  std::string worker;
  double timeout_seconds = 300;
};

/// The worker with this number; nullptr if it has left.
const v1::WorkerStatus* Find(const v1::ServiceStatus& status, const v1::Number& id) {
  for (const v1::WorkerStatus& worker : status.workers()) {
    if (worker.id().term() == id.term() && worker.id().n() == id.n()) return &worker;
  }
  return nullptr;
}

/// Whether nothing is left to do for the worker: it says that it drains, and owes no step.
bool IsEmpty(const v1::WorkerStatus* worker) {
  return worker == nullptr ||
         (worker->slots() == 0 && worker->owed() == 0 && worker->queue_seconds() == 0);
}

Status Drain(const DrainArguments& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Connector> connector,
                            Connect(options.connection));
  v1::DrainWorkerRequest request;
  request.set_worker(options.worker);
  MILLRACE_ASSIGN_OR_RETURN(
      const v1::DrainWorkerResponse drained,
      connector->DrainWorker(options.connection.address, request, kDrainAnswerSeconds));
  std::stop_source stop;
  const StopSignals signals([&stop] { stop.request_stop(); });
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(options.timeout_seconds);
  while (true) {
    const Result<v1::ServiceStatus> status =
        connector->GetStatus(options.connection.address, kDrainAnswerSeconds);
    const v1::WorkerStatus* worker = status.ok() ? Find(*status, drained.id()) : nullptr;
    if (status.ok() && IsEmpty(worker)) {
      std::printf("worker %s is empty\n", options.worker.c_str());
      return OkStatus();
    }
    const bool over = std::chrono::steady_clock::now() >= end;
    if (over || stop.stop_requested()) {
      const std::string left = !status.ok() ? status.status().message()
                               : worker->slots() > 0
                                   ? "it has not said yet that it drains"
                                   : fmt::format("it owes consumers {} steps", worker->owed());
      return DeadlineExceeded(fmt::format(
          "worker {} is not empty {}: {}; it goes on draining: run this again to wait for it",
          options.worker,
          over ? fmt::format("after {} s", options.timeout_seconds) : "yet (interrupted)", left));
    }
    WaitUnlessStopped(stop.get_token(), kLookEvery);
  }
}

struct UndrainArguments {
  Connection connection;
  std::string worker;
};

Status Undrain(const UndrainArguments& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Connector> connector,
                            Connect(options.connection));
  v1::UndrainWorkerRequest request;
  request.set_worker(options.worker);
  MILLRACE_ASSIGN_OR_RETURN(
      const v1::UndrainWorkerResponse undrained,
      connector->UndrainWorker(options.connection.address, request, kDrainAnswerSeconds));
  std::stop_source stop;
  const StopSignals signals([&stop] { stop.request_stop(); });
  const auto end = std::chrono::steady_clock::now() + kUndrainWithin;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(
        const v1::ServiceStatus status,
        connector->GetStatus(options.connection.address, kDrainAnswerSeconds));
    const v1::WorkerStatus* worker = Find(status, undrained.id());
    if (worker == nullptr) {
      return Unavailable(fmt::format("worker {} has left", options.worker));
    }
    if (worker->state() != "draining" && worker->state() != "silent") {
      std::printf("worker %s takes steps again\n", options.worker.c_str());
      return OkStatus();
    }
    if (std::chrono::steady_clock::now() >= end || stop.stop_requested()) {
      return FailedPrecondition(
          fmt::format("worker {} is still {}: {}", options.worker, worker->state(),
                      worker->state() == "silent"
                          ? worker->why()
                          : "its process is about to end, so that it drains to its end"));
    }
    WaitUnlessStopped(stop.get_token(), kLookEvery);
  }
}

}  // namespace

void AddDrainCommand(Tool& tool) {
  const auto options = std::make_shared<DrainArguments>();
  CommandLine& command =
      tool.Add("drain", "Give a worker no new work, and wait until it owes consumers nothing",
               "  millrace drain host7:4121   # name, address or number, as in millrace status\n"
               "  millrace drain 10.0.0.2:7701 --timeout 60\n",
               [options] { return Drain(*options); });
  command.AddOption("worker", &options->worker, "name, address or number of the worker")
      .Required()
      .TypeName("WORKER");
  AddConnection(command, options->connection);
  command.AddOption("--timeout", &options->timeout_seconds, "seconds to wait until it is empty")
      .Check(Seconds())
      .TypeName("SECONDS")
      .ShowDefault();
}

void AddUndrainCommand(Tool& tool) {
  const auto options = std::make_shared<UndrainArguments>();
  CommandLine& command =
      tool.Add("undrain", "Give a worker that drains work again",
               "  millrace undrain host7:4121   # name, address or number, as in millrace status\n",
               [options] { return Undrain(*options); });
  command.AddOption("worker", &options->worker, "name, address or number of the worker")
      .Required()
      .TypeName("WORKER");
  AddConnection(command, options->connection);
}

}  // namespace millrace::cli
