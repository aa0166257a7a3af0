#include "server/daemon/port_guard.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/access/rights.h"
#include "common/base/addresses.h"
#include "server/access/access_file.h"

namespace millrace {
namespace {

constexpr const char* kOtherMethods = "other";

PeerRoles RolesOf(Role role) {
  switch (role) {
    case Role::kDispatcher:
      return {PeerRole::kDispatcher};
    case Role::kWorker:
      return {PeerRole::kWorker};
    case Role::kServe:
      break;
  }
  return {PeerRole::kDispatcher, PeerRole::kWorker};
}

/// The name of a method as metrics have it. Peers may call whatever they like: what is no method of
/// ours has one name.
std::string NameOf(std::string_view method) {
  const auto rows = RightsTable();
  const bool known = std::any_of(rows.begin(), rows.end(),
                                 [&](const Right& right) { return right.method == method; });
  return known ? std::string(method.substr(method.rfind('/') + 1)) : kOtherMethods;
}

}  // namespace

Result<DaemonSecurity> DaemonSecurity::Make(const DaemonOptions& options,
                                            const std::shared_ptr<const Clock>& clock,
                                            const std::shared_ptr<Logger>& log) {
  DaemonSecurity security;
  Result<LocalUsers> users = LocalUsers::Make(geteuid(), options.shared_memory_group);
  if (!users.ok()) return users.status().WithContext("option shared_memory_group");
  security.users = *std::move(users);
  if (!options.etcd_tls.empty()) {
    auto etcd = TlsFolder::Open({.folder = options.etcd_tls, .proof = TlsProof::kNone}, clock, log);
    if (!etcd.ok()) return etcd.status().WithContext("option etcd_tls");
    security.etcd = *std::move(etcd);
  }
  if (options.tls.empty()) return security;
  auto folder =
      TlsFolder::Open({.folder = options.tls, .roles = RolesOf(options.role)}, clock, log);
  if (!folder.ok()) return folder.status().WithContext("option tls");
  security.tls = *std::move(folder);
  if (options.access.empty()) return security;
  auto access = AccessFile::Open(options.access, clock, log);
  if (!access.ok()) return access.status().WithContext("option access");
  security.policy = *std::move(access);
  return security;
}

PortGuard::PortGuard(std::string port, const DaemonSecurity& security, std::shared_ptr<Logger> log)
    : port_(std::move(port)), security_(security), log_(std::move(log)), calls_({}) {}

ServerSecurity PortGuard::ForServer(const std::string& listen) {
  ServerSecurity security;
  security.tls = security_.tls;
  security.policy = security_.policy;
  if (security.tls == nullptr && IsLoopback(listen)) security.users = security_.users;
  security.on_refused_call = [this](std::string_view method, const Peer& peer, const Status& why) {
    OnCall(method, peer, why);
  };
  security.on_refused_connection = [this](RefusedConnection why, const std::string& peer) {
    OnConnection(why, peer);
  };
  return security;
}

LocalUsers PortGuard::MemoryUsers() const {
  return security_.policy == nullptr ? security_.users : security_.users.WithoutGroup();
}

void PortGuard::OnCall(std::string_view method, const Peer& peer, const Status& why) {
  const std::string name = NameOf(method);
  calls_.Count(name, why);
  ++(why.code() == StatusCode::kUnauthenticated ? unauthenticated_ : denied_);
  const auto unsaid = LinesOf(name).MayLog(SystemClock().Now());
  if (!unsaid) return;
  log_->Warning("call refused", {{"port", port_},
                                 {"peer", peer.address},
                                 {"name", peer.identity.name},
                                 {"role", peer.identity.roles.ToString()},
                                 {"method", name},
                                 {"why", why},
                                 {"unsaid", *unsaid}});
}

LogLimit& PortGuard::LinesOf(const std::string& method) {
  constexpr std::size_t kMostMethods = 64;
  MutexLock lock(lines_mutex_);
  const bool known = call_lines_.contains(method) || call_lines_.size() < kMostMethods;
  return call_lines_[known ? method : std::string()];
}

void PortGuard::OnConnection(RefusedConnection why, const std::string& peer) {
  const auto reason = static_cast<std::size_t>(why);
  ++connections_.at(reason);
  const auto unsaid = connection_lines_.at(reason).MayLog(SystemClock().Now());
  if (!unsaid) return;
  log_->Warning("connection refused", {{"port", port_},
                                       {"peer", peer},
                                       {"why", std::string(RefusedConnectionName(why))},
                                       {"unsaid", *unsaid}});
}

void PortGuard::AddMetrics(MetricSet& metrics) const {
  calls_.AddTo(metrics);
  for (std::size_t i = 0; i < kReasons; ++i) {
    const std::string reason(RefusedConnectionName(static_cast<RefusedConnection>(i)));
    metrics.Add(Metric::kRefusedConnections, {port_, reason},
                static_cast<double>(connections_.at(i).load()));
  }
  if (security_.tls == nullptr) return;
  metrics.Add(Metric::kCertificateExpiry, {port_},
              static_cast<double>(security_.tls->Current()->ends));
}

v1::PortSecurity PortGuard::State() const {
  v1::PortSecurity state;
  state.set_tls(security_.tls != nullptr);
  if (security_.tls != nullptr) {
    state.set_certificate_ends_unix_seconds(security_.tls->Current()->ends);
  }
  for (std::size_t i = 0; i < kReasons; ++i) {
    const std::string reason(RefusedConnectionName(static_cast<RefusedConnection>(i)));
    (*state.mutable_refused_connections())[reason] = connections_.at(i).load();
  }
  (*state.mutable_refused_calls())[CodeLabel(StatusCode::kUnauthenticated)] = unauthenticated_;
  (*state.mutable_refused_calls())[CodeLabel(StatusCode::kPermissionDenied)] = denied_;
  return state;
}

}  // namespace millrace
