// One of several dispatchers that share a state in etcd. The elected dispatcher
// (state/etcd/election.h) runs a DispatcherService of its own, with a new term. The others refuse
// everybody with Unavailable "not the leader: <who> leads". Peers then go on to the next address
// that they know.
//
//   standby ── elected ──▶ loads the state, commits a term ──▶ leads
//      ▲                                                         │
//      └────── its time is over: all streams are closed ◀────────┘
//
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/log.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "common/system/ticker.h"
#include "common/transport/strand.h"
#include "server/dispatcher/service/dispatcher_service.h"
#include "server/dispatcher/service/plan_compiler.h"
#include "server/dispatcher/service/running_dispatcher.h"
#include "server/state/etcd/election.h"
#include "server/state/etcd/etcd_address.h"

namespace millrace {

class ElectedDispatcher final : public RunningDispatcher {
 public:
  /// Makes a standby that stands for election only after SetAddress. Messages call this dispatcher
  /// `name` if it leads. `clock` has to read CLOCK_BOOTTIME. `security`: see DispatcherHooks;
  /// `etcd_tls`: see EtcdClient.
  ElectedDispatcher(const DispatcherOptions& options, const EtcdAddress& store, std::string name,
                    std::shared_ptr<PlanCompiler> compiler, std::shared_ptr<const Clock> clock,
                    std::shared_ptr<Logger> logger,
                    std::function<v1::PortSecurity()> security = nullptr,
                    std::shared_ptr<TlsFolder> etcd_tls = nullptr);
  ~ElectedDispatcher() override;

  /// Also resigns, so that a standby can lead at once.
  void Stop() override;
  void SetDataset(const std::string& id, v1::DatasetState dataset) override;
  /// Also stands for election from now on.
  void SetAddress(const std::string& address) override;
  std::uint64_t term() const override;
  void AddMetrics(MetricSet& metrics) override;
  bool leads() const override;
  Time last_round() const override;

  std::shared_ptr<StreamHandler<v1::AttachRequest>> OnAttach(
      std::shared_ptr<Stream<v1::AttachResponse>> stream, const Peer& peer) override;
  std::shared_ptr<StreamHandler<v1::WorkRequest>> OnWork(
      std::shared_ptr<Stream<v1::WorkResponse>> stream, const Peer& peer) override;
  std::shared_ptr<StreamHandler<v1::TraceRequest>> OnTrace(
      std::shared_ptr<Stream<v1::TraceChunk>> stream) override;
  Result<std::shared_ptr<const std::string>> OnGetColumn(
      const v1::GetColumnRequest& request) override;
  Result<v1::ServiceStatus> OnGetStatus(const Peer& peer) override;
  Result<v1::DrainWorkerResponse> OnDrainWorker(const v1::DrainWorkerRequest& request) override;
  Result<v1::UndrainWorkerResponse> OnUndrainWorker(
      const v1::UndrainWorkerRequest& request) override;
  Result<v1::EndJobResponse> OnEndJob(const v1::EndJobRequest& request, const Peer& peer) override;

 private:
  /// Begins or ends leadership, by the state of the election.
  void Follow();
  void Lead(const EtcdFence& fence);
  void Retire();
  std::shared_ptr<DispatcherService> Leading() const;
  Status NotTheLeader() const;
  template <class StreamT, class F>
  auto WhereLeading(const std::shared_ptr<StreamT>& stream, F accept)
      -> decltype(accept(std::declval<DispatcherService&>()));

  DispatcherOptions options_;  // not changed after SetAddress
  const EtcdAddress store_;
  const std::string name_;
  const std::shared_ptr<PlanCompiler> compiler_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<Logger> logger_;
  const std::function<v1::PortSecurity()> security_;  // see DispatcherHooks
  const std::shared_ptr<EtcdClient> etcd_;

  mutable Mutex mutex_;
  std::shared_ptr<Election> election_ MILLRACE_GUARDED_BY(mutex_);  // null before SetAddress
  std::map<std::string, v1::DatasetState> datasets_ MILLRACE_GUARDED_BY(mutex_);
  std::shared_ptr<DispatcherService> service_
      MILLRACE_GUARDED_BY(mutex_);  // null if this is a standby
  bool stopped_ MILLRACE_GUARDED_BY(mutex_) = false;

  // Only the thread of follower_ uses these.
  std::int64_t revision_ = 0;  // of the key in etcd with which service_ leads
  Time try_again_at_;

  Executor retired_{1};  // destroys services, whose compilations may still run
  std::unique_ptr<Ticker> steps_;
  std::unique_ptr<Ticker> follower_;
};

}  // namespace millrace
