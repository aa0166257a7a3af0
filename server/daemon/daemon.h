// The whole daemon: it takes options and gives listening servers. There are no singletons. All that
// main.cc starts are members here, and end with the daemon.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
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
#include "common/transport/stream.h"
#include "server/daemon/options.h"
#include "server/daemon/port_guard.h"
#include "server/dispatcher/service/running_dispatcher.h"
#include "server/plan/columns/kept_columns.h"
#include "server/plan/plan_library.h"
#include "server/plugin/plugin_registry.h"
#include "server/web/shared_status.h"
#include "server/web/web_server.h"
#include "server/worker/service/worker_service.h"

namespace millrace {

class Daemon {
 public:
  /// Starts to listen and to work. AlreadyExists if a port is in use, FailedPrecondition if the
  /// state folder is in use, and so on; after an error nothing is left behind. `on_broken` is
  /// called, from any thread, if the daemon cannot go on and has to be stopped.
  static Result<std::unique_ptr<Daemon>> Start(const DaemonOptions& options,
                                               std::shared_ptr<Logger> log,
                                               std::function<void(const Status&)> on_broken);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// host:port of the control service. Without one, host:port of the batch service.
  std::string address() const;

  /// Takes the datasets of `options` without interruption; other options are ignored. Datasets that
  /// are new or have moved are opened. Running jobs keep the datasets that they began with.
  void ReloadDatasets(const DaemonOptions& options);

  /// Stops indexing, finishes the work that is owed, for at most the grace time, and stops. Blocks.
  /// It may take longer if something cannot be interrupted, such as the compilation of a plan; see
  /// ShutdownLimit.
  void DrainAndStop();

 private:
  Daemon(const DaemonOptions& options, const DaemonSecurity& security,
         std::shared_ptr<const Clock> clock, std::shared_ptr<Logger> log,
         std::function<void(const Status&)> on_broken);
  Status StartDispatcher();
  Status StartWorker();
  void OpenDatasets();
  /// Starts the HTTP and the health server, each if it has an address.
  Status StartProbes(const DaemonSecurity& security);
  Status StartWeb(const DaemonSecurity& security);
  std::string MetricsPage();
  /// The JSON that the page shows: the service's status as a viewer may see it, or, for a worker,
  /// where its dispatcher is.
  Result<SharedStatus::Text> StatusText();
  void AddMetrics(MetricSet& metrics);
  void TellHealth();

  const DaemonOptions options_;
  const std::shared_ptr<Logger> log_;
  const std::function<void(const Status&)> on_broken_;
  const std::shared_ptr<const Clock> clock_;
  const std::int64_t began_unix_seconds_;
  const std::shared_ptr<TlsFolder> etcd_tls_;  // null: no TLS
  PortGuard control_guard_;
  PortGuard batch_guard_;
  PortGuard metrics_guard_;
  const std::shared_ptr<SharedArena> arena_;  // null: not shared
  std::stop_source stop_fetching_;
  const std::shared_ptr<Connector> connector_;  // of the worker
  const std::shared_ptr<KeptColumns> columns_;  // of the dispatcher; null: no dispatcher
  const std::shared_ptr<PluginRegistry> plugins_;
  const std::shared_ptr<PlanLibrary> library_;

  std::string control_address_;
  std::string batch_address_;
  std::shared_ptr<RunningDispatcher> dispatcher_;
  std::unique_ptr<GrpcServer> control_;
  std::shared_ptr<WorkerService> worker_;
  std::unique_ptr<GrpcServer> batches_;
  std::unique_ptr<ShmServer> local_batches_;  // null: no server
  std::atomic<Time> worker_ticked_;
  std::unique_ptr<Ticker> security_ticker_;  // null: no TLS
  std::unique_ptr<Ticker> ticker_;
  std::unique_ptr<WebServer> web_;        // null: no server
  std::unique_ptr<HealthServer> health_;  // null: no server
  std::unique_ptr<Ticker> health_ticker_;
  std::thread opener_;
  std::set<std::string> dataset_ids_;  // ids in the present configuration
  bool stopped_ = false;
  std::atomic<bool> draining_{false};
};

}  // namespace millrace
