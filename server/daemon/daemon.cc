#include "server/daemon/daemon.h"

#include <algorithm>
#include <utility>

#include "common/base/addresses.h"
#include "common/base/json_text.h"
#include "common/transport/convert/status_json.h"
#include "common/transport/grpc/grpc_client.h"
#include "server/daemon/column_adapters.h"
#include "server/daemon/plan_adapters.h"
#include "server/dispatcher/machine/status_reach.h"
#include "server/dispatcher/service/dispatcher_service.h"
#include "server/dispatcher/service/elected_dispatcher.h"
#include "server/kinds/python/python_dataset.h"
#include "server/kinds/python/python_kind.h"
#include "server/plugin/files/plugin_files.h"
#include "server/state/sqlite/sqlite_store.h"
#include "server/web/metrics_text.h"
#include "server/web/web_access.h"
#include "server/web/web_routes.h"

namespace millrace {
namespace {

/// The daemon's threads run their loops several times a second. One that has not done so for this
/// long hangs.
constexpr Duration kHangs = std::chrono::seconds(30);

/// Null if batches are not shared. A batch for which the arena has no room is built elsewhere, and
/// copied to its consumer.
std::shared_ptr<SharedArena> MakeArena(const DaemonOptions& options) {
  if (!options.shared_memory || options.role == Role::kDispatcher) return nullptr;
  return std::make_shared<SharedArena>(options.batch_memory());
}

std::map<std::string, DatasetLocation> LocationsOf(const DaemonOptions& options) {
  std::map<std::string, DatasetLocation> locations;
  for (const auto& [id, dataset] : options.datasets) {
    locations[id] = {.dir = dataset.path,
                     .index_file = dataset.index,
                     .kind = dataset.kind,
                     .in_memory = dataset.in_memory};
  }
  // A plugin is a dataset of its own, whose files are read anew when the configuration is.
  for (const auto& [name, plugin] : options.plugins) {
    const auto files = ReadFileSet(plugin.path);
    locations[std::string(kPluginIdPrefix) + name] = {
        plugin.path, "", std::string(kPythonKind),
        files.ok() ? files->Digest().ToHex() : std::string()};
  }
  return locations;
}

std::set<std::string> IdsOf(const DaemonOptions& options) {
  std::set<std::string> ids;
  for (const auto& [id, dataset] : options.datasets) ids.insert(id);
  for (const auto& [name, plugin] : options.plugins) {
    ids.insert(std::string(kPluginIdPrefix) + name);
  }
  return ids;
}

/// Null for a process that builds no batches.
std::shared_ptr<BuiltExamples> MakeExamples(const DaemonOptions& options,
                                            const std::shared_ptr<const Clock>& clock,
                                            const std::shared_ptr<Logger>& log) {
  if (options.role == Role::kDispatcher) return nullptr;
  std::unique_ptr<DiskCache> disk;
  if (!options.cache_dir.empty()) {
    disk = std::make_unique<DiskCache>(
        DiskCacheOptions{.folder = options.cache_dir, .limit_bytes = options.cache_dir_bytes},
        std::make_shared<SystemCacheFiles>(), clock, log);
  }
  return std::make_shared<BuiltExamples>(options.cache_bytes, std::move(disk));
}

/// Null where there is no dispatcher.
std::shared_ptr<KeptColumns> MakeKeptColumns(const DaemonOptions& options,
                                             const std::shared_ptr<Logger>& log) {
  if (options.role == Role::kWorker) return nullptr;
  return std::make_shared<KeptColumns>(log);
}

PlanLibraryOptions LibraryOptions(const DaemonOptions& options, std::shared_ptr<SharedArena> arena,
                                  std::shared_ptr<BuiltExamples> examples,
                                  const std::shared_ptr<PluginRegistry>& plugins,
                                  std::shared_ptr<KeptColumns> columns, FetchedColumns::Fetch fetch,
                                  const std::shared_ptr<Logger>& log) {
  PlanLibraryOptions library;
  library.examples = std::move(examples);
  library.kinds = options.kinds.Replacing(MakePythonKind(plugins));
  library.plugins = plugins;
  library.batch_memory = std::move(arena);
  library.datasets = LocationsOf(options);
  library.index_threads = static_cast<unsigned>(options.threads);
  library.open_ahead = true;
  library.skip_bad = options.skip_bad;
  library.columns = std::move(columns);
  if (library.columns == nullptr) {
    library.columns = std::make_shared<FetchedColumns>(std::move(fetch), log);
  }
  return library;
}

/// A worker in the same process tells the dispatcher about its datasets. A dispatcher without one
/// finds out by itself.
v1::DatasetState StateWithFiles(PlanLibrary& library, PlanProvider& provider,
                                const std::string& id) {
  v1::DatasetState state;
  if (const auto status = library.GetStatus(id); status.ok()) state = ToProto(*status);
  if (state.digest().empty()) return state;  // listing its files would try to open it again
  for (v1::FileEntry& file : provider.ListFiles(id)) *state.add_file_list() = std::move(file);
  return state;
}

/// The user at the other end of a connection over loopback to the HTTP port at `listen`.
Result<uid_t> UserOfRequest(const std::string& listen, const WebRequest& request) {
  std::string own = request.peer.find('.') == std::string::npos ? "::1" : "127.0.0.1";
  const std::optional<HostPort> given = ParseHostPort(listen);
  if (given && IsLoopback(listen) && given->host != "localhost") own = given->host;
  return UserOfPeer(request.peer, request.peer_port, own, request.own_port);
}

/// Whether there is a worker that says how many processes plugins have.
bool TunesWorker(const DaemonOptions& options) {
  return options.tune && options.role != Role::kDispatcher;
}

}  // namespace

Daemon::Daemon(const DaemonOptions& options, const DaemonSecurity& security,
               std::shared_ptr<const Clock> clock, std::shared_ptr<Logger> log,
               std::function<void(const Status&)> on_broken)
    : options_(options),
      log_(std::move(log)),
      on_broken_(std::move(on_broken)),
      clock_(std::move(clock)),
      began_unix_seconds_(clock_->UnixSeconds()),
      etcd_tls_(security.etcd),
      control_guard_("control", security, log_),
      batch_guard_("batches", security, log_),
      metrics_guard_("metrics", options.metrics_tls ? security : DaemonSecurity(), log_),
      arena_(MakeArena(options)),
      connector_(MakeGrpcConnector({.tls = security.tls})),
      columns_(MakeKeptColumns(options, log_)),
      plugins_(std::make_shared<PluginRegistry>(
          PluginRegistryOptions{.plugins = options.plugins,
                                .copies = DefaultPluginCopies(),
                                .clock = clock_,
                                .logger = log_,
                                .begin_with_one = TunesWorker(options)})),
      library_(std::make_shared<PlanLibrary>(
          LibraryOptions(options, arena_, MakeExamples(options, clock_, log_), plugins_, columns_,
                         FetchFrom(connector_, options.dispatcher, stop_fetching_.get_token()),
                         log_),
          log_)),
      dataset_ids_(IdsOf(options)) {}

Result<std::unique_ptr<Daemon>> Daemon::Start(const DaemonOptions& options,
                                              std::shared_ptr<Logger> log,
                                              std::function<void(const Status&)> on_broken) {
  const auto clock = std::make_shared<SystemClock>();
  MILLRACE_ASSIGN_OR_RETURN(const DaemonSecurity security,
                            DaemonSecurity::Make(options, clock, log));
  std::unique_ptr<Daemon> daemon(
      new Daemon(options, security, clock, std::move(log), std::move(on_broken)));
  if (options.role != Role::kWorker) MILLRACE_RETURN_IF_ERROR(daemon->StartDispatcher());
  if (options.role != Role::kDispatcher) MILLRACE_RETURN_IF_ERROR(daemon->StartWorker());
  Daemon* d = daemon.get();
  if (security.tls != nullptr) {
    d->security_ticker_ =
        std::make_unique<Ticker>(std::chrono::seconds(1), [security] { security.Refresh(); });
  }
  if (d->worker_) {
    d->worker_ticked_ = d->clock_->Now();
    d->ticker_ = std::make_unique<Ticker>(std::chrono::milliseconds(50), [d] {
      d->worker_->Tick();
      d->worker_ticked_ = d->clock_->Now();
    });
  }
  MILLRACE_RETURN_IF_ERROR(d->StartProbes(security));
  if (d->dispatcher_) d->opener_ = std::thread([d] { d->OpenDatasets(); });
  return daemon;
}

Daemon::~Daemon() { DrainAndStop(); }

std::string Daemon::address() const {
  return options_.role == Role::kWorker ? batch_address_ : control_address_;
}

Status Daemon::StartDispatcher() {
  DispatcherOptions dispatcher;
  dispatcher.version = MILLRACE_VERSION;
  dispatcher.address = options_.listen;
  dispatcher.attach_timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(options_.attach_timeout * 1e3));
  if (dataset_ids_.empty()) {
    log_->Warning(
        "no dataset: only pipelines are served whose plugins workers have; give --dataset ID=DIR "
        "for others");
  }
  const bool with_worker = options_.role == Role::kServe;
  const auto compiler = MakePlanCompiler(library_, with_worker, columns_);
  if (options_.store.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(auto store, SqliteStore::Open(options_.state));
    MILLRACE_ASSIGN_OR_RETURN(
        dispatcher_, DispatcherService::Start(
                         dispatcher, std::move(store), compiler, clock_, log_,
                         {.may_lead = nullptr, .on_broken_store = on_broken_, .security = [this] {
                            return control_guard_.State();
                          }}));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const EtcdAddress store, ParseEtcdAddress(options_.store));
    dispatcher.backend = "etcd";
    dispatcher_ = std::make_shared<ElectedDispatcher>(
        dispatcher, store, options_.name, compiler, clock_, log_,
        [this] { return control_guard_.State(); }, etcd_tls_);
  }
  GrpcServerOptions server;
  server.listen = options_.listen;
  server.security = control_guard_.ForServer(server.listen);
  MILLRACE_ASSIGN_OR_RETURN(
      control_, GrpcServer::Start(server, std::shared_ptr<DispatcherEndpoint>(dispatcher_)));
  control_address_ = WithPort(options_.listen, control_->port());
  dispatcher_->SetAddress(control_address_);
  log_->Info("listening",
             {{"for", "control"}, {"address", control_address_}, {"term", dispatcher_->term()}});
  if (options_.tls.empty() && !IsLoopback(options_.listen)) {
    log_->Warning("control is reachable from other hosts without encryption or authentication",
                  {{"address", control_address_}});
  }
  return OkStatus();
}

Status Daemon::StartWorker() {
  WorkerOptions worker;
  worker.name = options_.name;
  worker.host_id = NetworkHostId();
  worker.dispatcher = dispatcher_ ? control_address_ : options_.dispatcher;
  worker.threads = options_.threads;
  worker.tune = options_.tune;
  worker.threads_given = options_.threads_given;
  worker.cpus = [] { return std::min(ReadHostLimits().cpus, kMostThreads); };
  worker.memory_bytes = options_.batch_memory();
  worker.memory_limit = options_.memory_limit;
  worker.version = MILLRACE_VERSION;
  worker.security = [this] { return batch_guard_.State(); };

  // The port is known only after the server has begun to listen, and the server needs the worker
  // first. So consumers learn the address from the worker's first report, which Start sends.
  struct Late final : WorkerEndpoint {
    std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
        std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer& peer) override {
      const std::shared_ptr<WorkerService> w = worker.lock();
      return w ? w->OnStreamBatches(std::move(stream), peer) : nullptr;
    }
    Result<StaticBytes> OnGetStatic(const std::string& fingerprint, const Peer& peer) override {
      const std::shared_ptr<WorkerService> w = worker.lock();
      if (!w) return Unavailable("the worker starts or stops");
      return w->OnGetStatic(fingerprint, peer);
    }
    std::weak_ptr<WorkerService> worker;
  };
  auto late = std::make_shared<Late>();
  GrpcServerOptions server;
  server.listen = options_.batch_listen;
  server.security = batch_guard_.ForServer(server.listen);
  MILLRACE_ASSIGN_OR_RETURN(batches_,
                            GrpcServer::Start(server, std::shared_ptr<WorkerEndpoint>(late)));
  batch_address_ = WithPort(options_.batch_listen, batches_->port());
  worker.address = options_.advertise.empty() ? batch_address_ : options_.advertise;
  // Port 0 asks for the port that the system has given.
  if (!IsHostPort(worker.address, 1)) worker.address = WithPort(worker.address, batches_->port());
  if (arena_ != nullptr) {
    Result<std::unique_ptr<ShmServer>> local =
        ShmServer::Start(late, arena_, batch_guard_.MemoryUsers(), log_);
    if (local.ok()) {
      local_batches_ = std::move(local).value();
      worker.unix_socket = local_batches_->address();
    } else {
      log_->Warning("no shared memory: consumers of this host use the network",
                    {{"error", local.status()}});
    }
  }
  worker_ = std::make_shared<WorkerService>(worker, MakePlanProvider(library_, plugins_),
                                            connector_, clock_, log_);
  late->worker = worker_;
  log_->Info("listening", {{"for", "batches"},
                           {"address", batch_address_},
                           {"advertised", worker.address},
                           {"threads", worker.threads},
                           {"batch_memory", worker.memory_bytes}});
  if (options_.tls.empty() && !IsLoopback(options_.batch_listen)) {
    log_->Warning("batches are reachable from other hosts without encryption or authentication",
                  {{"address", batch_address_}});
  }
  worker_->Start();
  return OkStatus();
}

Status Daemon::StartProbes(const DaemonSecurity& security) {
  const auto listening = [this](const char* what, const std::string& listen, int port) {
    log_->Info("listening", {{"for", what}, {"address", WithPort(listen, port)}});
  };
  if (!options_.metrics_listen.empty()) {
    MILLRACE_RETURN_IF_ERROR(StartWeb(security));
    listening("metrics", options_.metrics_listen, web_->port());
  }
  if (!options_.health_listen.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(health_, HealthServer::Start(options_.health_listen));
    listening("health", options_.health_listen, health_->port());
    TellHealth();
    health_ticker_ =
        std::make_unique<Ticker>(std::chrono::milliseconds(200), [this] { TellHealth(); });
  }
  return OkStatus();
}

Status Daemon::StartWeb(const DaemonSecurity& security) {
  WebAccessOptions access;
  access.open = options_.metrics_page;
  access.users = security.users;
  access.user_of = [listen = options_.metrics_listen](const WebRequest& request) {
    return UserOfRequest(listen, request);
  };
  if (options_.metrics_tls) {
    access.policy =
        security.policy != nullptr ? security.policy : std::make_shared<CertificatePolicy>();
  }
  const auto status = std::make_shared<SharedStatus>([this] { return StatusText(); }, clock_);
  const auto routes =
      std::make_shared<WebRoutes>(WebContents{.metrics = [this] { return MetricsPage(); },
                                              .status = [status] { return status->Get(); }},
                                  WebAccess(access));
  WebServerOptions server;
  server.listen = options_.metrics_listen;
  if (options_.metrics_tls) server.tls = security.tls;
  server.answer = [routes](const WebRequest& request) { return routes->Answer(request); };
  server.on_refused = metrics_guard_.ForServer(server.listen).on_refused_connection;
  MILLRACE_ASSIGN_OR_RETURN(web_, WebServer::Start(std::move(server)));
  return OkStatus();
}

std::string Daemon::MetricsPage() {
  MetricSet metrics;
  AddMetrics(metrics);
  return MetricsText({.dispatcher = dispatcher_ != nullptr, .worker = worker_ != nullptr}, metrics);
}

Result<SharedStatus::Text> Daemon::StatusText() {
  if (dispatcher_ == nullptr) {
    return std::make_shared<const std::string>(
        "{\"worker\": " + JsonText(options_.name) + ", \"address\": " + JsonText(batch_address_) +
        ", \"version\": " + JsonText(MILLRACE_VERSION) +
        ", \"dispatchers\": " + JsonList(SplitAddresses(options_.dispatcher)) + "}");
  }
  MILLRACE_ASSIGN_OR_RETURN(v1::ServiceStatus status, dispatcher_->OnGetStatus(Peer()));
  Restrict(status, Reach::kAllButPipelines, Identity());
  MILLRACE_ASSIGN_OR_RETURN(std::string text, StatusJson(status, true));
  return std::make_shared<const std::string>(std::move(text));
}

void Daemon::AddMetrics(MetricSet& metrics) {
  metrics.Add(Metric::kBuildInfo, {MILLRACE_VERSION}, 1);
  metrics.Add(Metric::kStart, {}, static_cast<double>(began_unix_seconds_));
  for (const auto& [kind, count] : library_->file_failures()) {
    metrics.Add(Metric::kFileVerifyFailures, {kind}, static_cast<double>(count));
  }
  for (const std::string& id : library_->dataset_ids()) {
    const auto dataset = library_->GetStatus(id);
    if (!dataset.ok()) continue;
    metrics.Add(Metric::kDatasetFailed, {id}, dataset->error.empty() ? 0 : 1);
    if (!worker_ || !dataset->open) continue;
    metrics.Add(Metric::kDatasetUnverified, {id, dataset->kind}, dataset->unverified);
  }
  if (dispatcher_) {
    dispatcher_->AddMetrics(metrics);
    control_guard_.AddMetrics(metrics);
  }
  if (worker_) {
    worker_->AddMetrics(metrics);
    batch_guard_.AddMetrics(metrics);
  }
  metrics_guard_.AddMetrics(metrics);
}

void Daemon::TellHealth() {
  const Time now = clock_->Now();
  bool alive = true;
  bool ready = !draining_;
  if (dispatcher_) {
    alive = alive && now - dispatcher_->last_round() < kHangs;
    ready = ready && dispatcher_->leads();
  }
  if (worker_) {
    const bool ticks = now - worker_ticked_.load() < kHangs;
    alive = alive && ticks;
    ready = ready && ticks && worker_->Ready();
  }
  health_->SetAlive(alive);
  health_->SetReady(ready);
}

void Daemon::OpenDatasets() {
  const auto provider = MakePlanProvider(library_);
  library_->OpenAll([&](const std::string& id, const Status& opened) {
    if (library_->stopped()) return;
    if (!opened.ok()) {
      log_->Error("dataset cannot be opened", {{"dataset", id}, {"error", opened}});
    }
    if (dispatcher_) dispatcher_->SetDataset(id, StateWithFiles(*library_, *provider, id));
    if (worker_) worker_->DatasetsChanged();
  });
}

void Daemon::ReloadDatasets(const DaemonOptions& options) {
  plugins_->SetPlugins(options.plugins);
  library_->SetDatasets(LocationsOf(options));
  const std::set<std::string> ids = IdsOf(options);
  for (const std::string& id : dataset_ids_) {
    if (ids.contains(id) || !dispatcher_) continue;
    v1::DatasetState gone;
    gone.set_error("not in the configuration any more");
    dispatcher_->SetDataset(id, gone);
  }
  dataset_ids_ = ids;
  if (worker_) worker_->DatasetsChanged();
  // Waits for an opener that is still at work. No other thread waits for either of them.
  opener_ = std::thread([this, before = std::move(opener_)]() mutable {
    if (before.joinable()) before.join();
    OpenDatasets();
  });
}

void Daemon::DrainAndStop() {
  if (std::exchange(stopped_, true)) return;
  draining_ = true;
  if (health_) TellHealth();
  // No index has to be finished: a session that waits for one finds another worker, or waits for
  // the next daemon.
  library_->Stop();
  plugins_->Stop();
  stop_fetching_.request_stop();
  if (worker_) {
    worker_->Drain();
    batches_->SetDraining();
  }
  if (control_) control_->SetDraining();
  const Time end =
      clock_->Now() + std::chrono::milliseconds(static_cast<std::int64_t>(options_.grace * 1e3));
  while (worker_ && !worker_->Idle() && clock_->Now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // An answer that the HTTP server makes may wait for what is stopped here.
  std::thread web_end([this] { web_.reset(); });
  health_ticker_.reset();
  security_ticker_.reset();
  ticker_.reset();
  if (worker_) worker_->Stop();
  local_batches_.reset();
  if (batches_) batches_->Shutdown(std::chrono::milliseconds(200));
  if (opener_.joinable()) opener_.join();
  if (dispatcher_) dispatcher_->Stop();
  if (control_) control_->Shutdown(std::chrono::milliseconds(200));
  web_end.join();
  health_.reset();
  log_->Info("stopped");
}

}  // namespace millrace
