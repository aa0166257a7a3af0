// The protection of one of a daemon's ports: the peers that it lets in, and reports about refused
// peers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/access/access_policy.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/security/tls_folder.h"
#include "common/system/clock.h"
#include "common/system/log_limit.h"
#include "common/system/mutex.h"
#include "common/system/refusal_counter.h"
#include "common/transport/grpc/grpc_server.h"
#include "millrace/v1/dispatcher.pb.h"
#include "server/daemon/options.h"

namespace millrace {

/// The proofs of a daemon, and its demands on peers. Thread-safe.
struct DaemonSecurity {
  std::shared_ptr<TlsFolder> tls;        // null: no TLS
  std::shared_ptr<AccessPolicy> policy;  // null: certificates decide
  std::shared_ptr<TlsFolder> etcd;       // of the store; null: no TLS
  LocalUsers users;                      // who may connect over loopback without TLS

  /// Takes over changed files. For a ticker; connections of peers do so too.
  void Refresh() const {
    if (tls != nullptr) (void)tls->Current();
    if (policy != nullptr) (void)policy->version();
  }

  /// Reads the files that the options name. Errors of TlsFolder, AccessFile and LocalUsers, each
  /// with the option's name.
  static Result<DaemonSecurity> Make(const DaemonOptions& options,
                                     const std::shared_ptr<const Clock>& clock,
                                     const std::shared_ptr<Logger>& log);
};

/// Thread-safe.
class PortGuard {
 public:
  /// `port`: "control", "batches" or "metrics", for the log.
  PortGuard(std::string port, const DaemonSecurity& security, std::shared_ptr<Logger> log);

  /// For a server at `listen`. This object has to outlive the server.
  ServerSecurity ForServer(const std::string& listen);
  /// Who may read batches in shared memory, if the dispatcher has admitted them. All batches of the
  /// worker are there. So if an access file says that not everybody may read everything, the
  /// members of the group use the network, like anybody else.
  LocalUsers MemoryUsers() const;
  /// Adds the refusals, and the end of the certificates' validity.
  void AddMetrics(MetricSet& metrics) const;
  v1::PortSecurity State() const;

 private:
  void OnCall(std::string_view method, const Peer& peer, const Status& why);
  void OnConnection(RefusedConnection why, const std::string& peer);
  /// Each method has lines of its own, so that a flood of one hides no other. Methods beyond the
  /// limit share one.
  LogLimit& LinesOf(const std::string& method);

  static constexpr std::size_t kReasons =
      static_cast<std::size_t>(RefusedConnection::kUnfinished) + 1;

  const std::string port_;
  const DaemonSecurity security_;
  const std::shared_ptr<Logger> log_;
  RefusalCounter calls_;
  std::array<std::atomic<std::uint64_t>, kReasons> connections_{};
  std::atomic<std::uint64_t> unauthenticated_{0};
  std::atomic<std::uint64_t> denied_{0};
  Mutex lines_mutex_;
  std::map<std::string, LogLimit> call_lines_ MILLRACE_GUARDED_BY(lines_mutex_);  // by method
  std::array<LogLimit, kReasons> connection_lines_;
};

}  // namespace millrace
