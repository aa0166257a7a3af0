// `millrace drain`: empties a worker, so that it can be taken away.

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

struct DrainArguments {
  Connection connection;
  std::string worker;
  double timeout_seconds = 300;
};

/// Number of this worker's leases that consumers hold; 0 if the worker has left.
std::uint32_t LeasesOf(const v1::ServiceStatus& status, const v1::Number& id) {
  for (const v1::WorkerStatus& worker : status.workers()) {
    if (worker.id().term() == id.term() && worker.id().n() == id.n()) return worker.leases();
  }
  return 0;
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
    if (status.ok() && LeasesOf(*status, drained.id()) == 0) {
      std::printf("worker %s is empty\n", options.worker.c_str());
      return OkStatus();
    }
    const bool over = std::chrono::steady_clock::now() >= end;
    if (over || stop.stop_requested()) {
      const std::string left = status.ok() ? fmt::format("consumers hold {} leases of it",
                                                         LeasesOf(*status, drained.id()))
                                           : status.status().message();
      return DeadlineExceeded(fmt::format(
          "worker {} is not empty {}: {}; it goes on draining: run this again to wait for it",
          options.worker,
          over ? fmt::format("after {} s", options.timeout_seconds) : "yet (interrupted)", left));
    }
    WaitUnlessStopped(stop.get_token(), kLookEvery);
  }
}

}  // namespace

void AddDrainCommand(Tool& tool) {
  const auto options = std::make_shared<DrainArguments>();
  CommandLine& command =
      tool.Add("drain", "Give a worker no new work, and wait until its consumers need it no more",
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

}  // namespace millrace::cli
