// The connections of a client: one per server, with or without TLS.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "common/access/role.h"
#include "common/base/result.h"
#include "common/security/tls_folder.h"
#include "common/system/mutex.h"
#include "common/transport/grpc/grpc_client.h"

namespace millrace {

/// A connection that could not be made is given up (failed_channel.h). The next call makes a new
/// one, so callers decide how often that is tried. Thread-safe.
class GrpcChannels {
 public:
  explicit GrpcChannels(const GrpcClientOptions& options) : options_(options) {}
  ~GrpcChannels();

  /// The connection to a server, which has to prove `role` if there is TLS. If the connection
  /// failed, takes too long, or was made with files that have changed, this is a new one; calls of
  /// the old one go on.
  std::shared_ptr<grpc::Channel> Get(const std::string& address, PeerRole role);
  /// Adds the proof that each call needs: the token, if it replaces a certificate.
  void Prepare(grpc::ClientContext& context);
  /// To be called with the connection of each stream, after the stream has begun. gRPC's threads
  /// for streams end with the last connection that had one, and cannot do that on one of these
  /// threads. So one is kept.
  void Keep(std::shared_ptr<grpc::Channel> channel);

  using Call = std::function<Status(const std::shared_ptr<grpc::Channel>&)>;
  /// Makes one blocking call, for which at most one connection is opened. If that is closed before
  /// it is of use, the next check finds out whether TLS is the reason, in place of the call, and
  /// reports it. The finding holds for some seconds. `call` limits its own time; it begins after
  /// `most_seconds` at the latest, or when `stop` is requested.
  Status Look(const std::string& address, PeerRole role, double most_seconds,
              const std::stop_token& stop, const Call& call);
  /// The status with which a stream ended, with the reason in its message if TLS is known to be the
  /// reason. Does not block: an unknown reason is found out meanwhile, and is there for the next
  /// stream that fails.
  Status Explain(const Status& status, const std::string& address, PeerRole role);

  /// Whether a call failed because the server, or an intermediary, closed the connection. The
  /// reason may be TLS, or too many connections at the server.
  static bool WasTurnedAway(const Status& status);

 private:
  struct Key {
    std::string address;
    PeerRole role;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    std::shared_ptr<const TlsFiles> files;  // with which it was made; null: no TLS
    std::shared_ptr<grpc::Channel> channel;
    std::chrono::steady_clock::time_point begun;  // when a caller last got it unconnected
  };
  struct Known {
    Status status;
    std::chrono::steady_clock::time_point since;
    bool holds() const;
  };

  std::shared_ptr<const TlsFiles> Files() const;
  std::shared_ptr<grpc::Channel> Make(const Key& key, const TlsFiles* files) const;
  std::chrono::duration<double> ConnectLimit(bool tls) const;
  bool IsGivenUp(const Entry& entry) const;
  /// Waits until the channel is connected or has failed. An error if that takes too long.
  Status Connect(grpc::Channel& channel, const std::string& address, double most_seconds,
                 const std::stop_token& stop) const;
  /// Drops the connection if it failed.
  void GiveUpFailed(const Key& key);
  /// The status, with the reason if TLS is one. Unset: unknown.
  std::optional<Status> WithReason(const Status& status, const Key& key) const
      MILLRACE_REQUIRES(mutex_);
  Status FindReason(const Key& key);
  void FindReasons();

  const GrpcClientOptions options_;
  Mutex mutex_;
  CondVar changed_;
  std::map<Key, Entry> channels_ MILLRACE_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Channel> kept_ MILLRACE_GUARDED_BY(mutex_);
  /// The last check's result, if it has to be explained.
  std::map<Key, Known> unexplained_ MILLRACE_GUARDED_BY(mutex_);
  std::map<Key, Known> reasons_ MILLRACE_GUARDED_BY(mutex_);  // ok: TLS is not the reason
  std::deque<Key> to_explain_ MILLRACE_GUARDED_BY(mutex_);
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::thread explainer_ MILLRACE_GUARDED_BY(mutex_);  // runs from the first Explain on
};

}  // namespace millrace
