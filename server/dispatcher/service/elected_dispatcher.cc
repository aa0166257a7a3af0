#include "server/dispatcher/service/elected_dispatcher.h"
#include "server/dispatcher/service/plan_compiler.h"

#include <chrono>
#include <utility>

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kFollow(50);  // between two looks at the election

}  // namespace

ElectedDispatcher::ElectedDispatcher(const DispatcherOptions& options, const EtcdAddress& store,
                                     std::string name, std::shared_ptr<PlanCompiler> compiler,
                                     std::shared_ptr<const Clock> clock,
                                     std::shared_ptr<Logger> logger,
                                     std::function<v1::PortSecurity()> security,
                                     std::shared_ptr<TlsFolder> etcd_tls)
    : options_(options),
      store_(store),
      name_(std::move(name)),
      compiler_(std::move(compiler)),
      clock_(std::move(clock)),
      logger_(std::move(logger)),
      security_(std::move(security)),
      etcd_(std::make_shared<EtcdClient>(store.endpoints, std::move(etcd_tls))) {}

ElectedDispatcher::~ElectedDispatcher() { Stop(); }

void ElectedDispatcher::SetAddress(const std::string& address) {
  options_.address = address;
  ElectionOptions election;
  election.prefix = store_.prefix;
  election.who = name_ + " at " + address;
  const auto candidate = std::make_shared<Election>(etcd_, election, clock_, logger_);
  {
    MutexLock lock(mutex_);
    election_ = candidate;
  }
  steps_ =
      std::make_unique<Ticker>(std::chrono::duration_cast<std::chrono::milliseconds>(election.step),
                               [candidate] { candidate->Step(); });
  follower_ = std::make_unique<Ticker>(kFollow, [this] { Follow(); });
}

void ElectedDispatcher::Stop() {
  std::shared_ptr<Election> election;
  {
    MutexLock lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    election = election_;
  }
  follower_.reset();
  Retire();
  steps_.reset();
  if (election) election->Resign();
}

void ElectedDispatcher::Follow() {
  std::shared_ptr<Election> election;
  bool leading = false;
  {
    MutexLock lock(mutex_);
    election = election_;
    leading = service_ != nullptr;
  }
  const std::optional<EtcdFence> fence = election->fence();
  if (leading && (!fence || fence->create_revision != revision_)) {
    Retire();
    leading = false;
  }
  if (!leading && fence && clock_->Now() >= try_again_at_) Lead(*fence);
}

void ElectedDispatcher::Lead(const EtcdFence& fence) {
  std::shared_ptr<Election> election;
  {
    MutexLock lock(mutex_);
    election = election_;
  }
  const std::int64_t revision = fence.create_revision;
  const auto store = std::make_shared<EtcdStore>(
      etcd_, store_.prefix, fence,
      [election, revision](const Status& why) { election->Lose(revision, why); });
  DispatcherHooks hooks;
  hooks.may_lead = [election, revision] { return election->Leads(revision); };
  hooks.security = security_;
  auto service = DispatcherService::Start(options_, store, compiler_, clock_, logger_, hooks);
  if (!service.ok()) {
    try_again_at_ = clock_->Now() + options_.retry;
    logger_->Error("elected, but cannot begin a term; it is tried again",
                   {{"why", service.status()}});
    return;
  }
  MutexLock lock(mutex_);
  for (const auto& [id, dataset] : datasets_) (*service)->SetDataset(id, dataset);
  revision_ = revision;
  service_ = *std::move(service);
}

void ElectedDispatcher::Retire() {
  std::shared_ptr<DispatcherService> service;
  {
    MutexLock lock(mutex_);
    service = std::exchange(service_, nullptr);
  }
  if (!service) return;
  service->Stop();
  retired_.Post([service = std::move(service)]() mutable { service.reset(); });
}

void ElectedDispatcher::SetDataset(const std::string& id, v1::DatasetState dataset) {
  MutexLock lock(mutex_);
  if (service_) service_->SetDataset(id, dataset);
  datasets_[id] = std::move(dataset);
}

std::uint64_t ElectedDispatcher::term() const {
  const auto service = Leading();
  return service ? service->term() : 0;
}

void ElectedDispatcher::AddMetrics(MetricSet& metrics) {
  if (const auto service = Leading()) service->AddMetrics(metrics);
}

bool ElectedDispatcher::leads() const {
  const auto service = Leading();
  return service != nullptr && service->leads();
}

// A standby has no event loop that could hang. Tickers run its election.
Time ElectedDispatcher::last_round() const {
  const auto service = Leading();
  return service != nullptr ? service->last_round() : clock_->Now();
}

std::shared_ptr<DispatcherService> ElectedDispatcher::Leading() const {
  MutexLock lock(mutex_);
  return service_;
}

Status ElectedDispatcher::NotTheLeader() const {
  MutexLock lock(mutex_);
  return election_ ? election_->NotTheLeader()
                   : Unavailable("not the leader: this dispatcher has just started");
}

// --- The network's side

template <class StreamT, class F>
auto ElectedDispatcher::WhereLeading(const std::shared_ptr<StreamT>& stream, F accept)
    -> decltype(accept(std::declval<DispatcherService&>())) {
  if (const auto service = Leading()) return accept(*service);
  stream->Close(NotTheLeader());
  return nullptr;
}

std::shared_ptr<StreamHandler<v1::AttachRequest>> ElectedDispatcher::OnAttach(
    std::shared_ptr<Stream<v1::AttachResponse>> stream, const Peer& peer) {
  return WhereLeading(stream, [&](DispatcherService& s) { return s.OnAttach(stream, peer); });
}

std::shared_ptr<StreamHandler<v1::WorkRequest>> ElectedDispatcher::OnWork(
    std::shared_ptr<Stream<v1::WorkResponse>> stream, const Peer& peer) {
  return WhereLeading(stream, [&](DispatcherService& s) { return s.OnWork(stream, peer); });
}

std::shared_ptr<StreamHandler<v1::TraceRequest>> ElectedDispatcher::OnTrace(
    std::shared_ptr<Stream<v1::TraceChunk>> stream) {
  return WhereLeading(stream, [&](DispatcherService& s) { return s.OnTrace(stream); });
}

Result<std::shared_ptr<const std::string>> ElectedDispatcher::OnGetColumn(
    const v1::GetColumnRequest& request) {
  if (const auto service = Leading()) return service->OnGetColumn(request);
  return NotTheLeader();
}

Result<v1::ServiceStatus> ElectedDispatcher::OnGetStatus(const Peer& peer) {
  if (const auto service = Leading()) return service->OnGetStatus(peer);
  return NotTheLeader();
}

Result<v1::DrainWorkerResponse> ElectedDispatcher::OnDrainWorker(
    const v1::DrainWorkerRequest& request) {
  if (const auto service = Leading()) return service->OnDrainWorker(request);
  return NotTheLeader();
}

Result<v1::UndrainWorkerResponse> ElectedDispatcher::OnUndrainWorker(
    const v1::UndrainWorkerRequest& request) {
  if (const auto service = Leading()) return service->OnUndrainWorker(request);
  return NotTheLeader();
}

Result<v1::EndJobResponse> ElectedDispatcher::OnEndJob(const v1::EndJobRequest& request,
                                                       const Peer& peer) {
  if (const auto service = Leading()) return service->OnEndJob(request, peer);
  return NotTheLeader();
}

}  // namespace millrace
