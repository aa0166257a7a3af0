// The daemon put together: options in, listening servers out. No singletons: everything that
// main.cc starts is a member here and ends with it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/system/clock.h"
#include "common/system/ticker.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/grpc/health_server.h"
#include "common/transport/shm/shared_arena.h"
#include "common/transport/shm/shm_server.h"
#include "server/daemon/metrics_exporter.h"
#include "server/daemon/options.h"
#include "server/dispatcher/service/running_dispatcher.h"
#include "server/pipeline/plan_library.h"
#include "server/worker/service/worker_service.h"

namespace millrace {

class Daemon {
 public:
  /// Listens and starts to work. AlreadyExists for a busy port, FailedPrecondition for a state
  /// folder in use, and so on: nothing is left behind.
  /// `on_broken` is called, from any thread, when the daemon cannot go on and has to be stopped.
  static Result<std::unique_ptr<Daemon>> Start(const DaemonOptions& options,
                                               std::shared_ptr<Logger> log,
                                               std::function<void(const Status&)> on_broken);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// host:port of the control service, or of the batch service where there is no control service.
  std::string address() const;

  /// Takes over the datasets of `options`, while everything goes on: those that are new or have
  /// moved are opened, and jobs that run go on with what they began with. Nothing else of it is
  /// looked at.
  void ReloadDatasets(const DaemonOptions& options);

  /// Ends indexing, finishes what is owed, at most for the grace time, and stops. Blocks; what
  /// cannot be interrupted (a plan being compiled) may make it last longer: see ShutdownLimit.
  void DrainAndStop();

 private:
  Daemon(const DaemonOptions& options, std::shared_ptr<Logger> log,
         std::function<void(const Status&)> on_broken);
  Status StartDispatcher();
  Status StartWorker();
  void OpenDatasets();
  /// Metrics and health, each where an address is given.
  Status StartProbes();
  void AddMetrics(MetricSet& metrics);
  void TellHealth();

  const DaemonOptions options_;
  const std::shared_ptr<Logger> log_;
  const std::function<void(const Status&)> on_broken_;
  const std::shared_ptr<Clock> clock_;
  const std::shared_ptr<SharedArena> arena_;  // null: none
  const std::shared_ptr<PlanLibrary> library_;

  std::string control_address_;
  std::string batch_address_;
  std::shared_ptr<RunningDispatcher> dispatcher_;
  std::unique_ptr<GrpcServer> control_;
  std::shared_ptr<WorkerService> worker_;
  std::unique_ptr<GrpcServer> batches_;
  std::unique_ptr<ShmServer> local_batches_;  // null: none
  std::atomic<Time> worker_ticked_;
  std::unique_ptr<Ticker> ticker_;
  std::unique_ptr<MetricsExporter> metrics_;  // null: none
  std::unique_ptr<HealthServer> health_;      // null: none
  std::unique_ptr<Ticker> health_ticker_;
  std::thread opener_;
  std::set<std::string> dataset_ids_;  // as configured now
  bool stopped_ = false;
  std::atomic<bool> draining_{false};
};

}  // namespace millrace
