// The connections of a client: one per server, with or without TLS.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "common/access/role.h"
#include "common/base/result.h"
#include "common/security/tls_folder.h"
#include "common/system/mutex.h"
#include "common/transport/grpc/grpc_client.h"

namespace millrace {

/// Thread-safe.
class GrpcChannels {
 public:
  explicit GrpcChannels(const GrpcClientOptions& options) : options_(options) {}
  ~GrpcChannels();

  /// The connection to a server, which has to prove `role` if there is TLS. Files that have changed
  /// since the connection was made give a new one; calls of the old one go on.
  std::shared_ptr<grpc::Channel> Get(const std::string& address, PeerRole role);
  /// Adds what each call has to show: the token, if that takes the place of a certificate.
  void Prepare(grpc::ClientContext& context);

  /// Whether a call failed because its connection was closed before it began. The reason may be
  /// TLS, or a server that has too many connections for the moment.
  static bool WasTurnedAway(const Status& status);
  /// The status of a call, with the reason in its message if the connection failed because of TLS.
  /// Connects once more to find out, and blocks for some seconds at most.
  Status Explain(const Status& status, const std::string& address, PeerRole role);
  /// The same without blocking: the reason is found out meanwhile, and is there for the next call
  /// that fails.
  Status ExplainLater(const Status& status, const std::string& address, PeerRole role);

 private:
  struct Key {
    std::string address;
    PeerRole role;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    std::shared_ptr<const TlsFiles> files;  // with which it was made; null: no TLS
    std::shared_ptr<grpc::Channel> channel;
  };
  struct Reason {
    Status why;  // ok: TLS is not the reason
    std::chrono::steady_clock::time_point found;
  };

  std::shared_ptr<const TlsFiles> Files() const;
  std::shared_ptr<grpc::Channel> Make(const Key& key, const TlsFiles* files) const;
  Status FindReason(const Key& key);
  void FindReasons();

  const GrpcClientOptions options_;
  Mutex mutex_;
  CondVar changed_;
  std::map<Key, Entry> channels_ MILLRACE_GUARDED_BY(mutex_);
  std::map<Key, Reason> reasons_ MILLRACE_GUARDED_BY(mutex_);
  std::deque<Key> to_explain_ MILLRACE_GUARDED_BY(mutex_);
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::thread explainer_ MILLRACE_GUARDED_BY(mutex_);  // runs from the first ExplainLater on
};

}  // namespace millrace
