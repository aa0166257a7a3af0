// A client of an etcd v3 cluster, over etcd's own gRPC API. A call goes to one endpoint, and to the
// next one if that does not answer. So if an answer is lost, a call may be done twice. Callers
// therefore compare before they write.
//
// Thread-safe. Calls block for at most 1.1 seconds per endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/security/tls_folder.h"
#include "common/system/mutex.h"
#include "etcd/rpc.pb.h"

namespace grpc {
class ClientContext;
class Status;
}  // namespace grpc

namespace millrace {

/// Codes: Unavailable if no endpoint or no quorum answers. ResourceExhausted if etcd is out of
/// space, with advice. NotFound for a lease that is over. PermissionDenied. InvalidArgument if
/// something is too large for etcd. Messages name the endpoint.
class EtcdClient {
 public:
  /// `tls`: the folder by which this client verifies etcd, and proves its identity: by a
  /// certificate, whose common name is etcd's user, or by the files `username` and `password`
  /// there. Null: no TLS.
  explicit EtcdClient(std::vector<std::string> endpoints, std::shared_ptr<TlsFolder> tls = nullptr);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  Result<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request);
  Result<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request);

  /// Makes a new lease and returns its id.
  Result<std::int64_t> Grant(std::int64_t ttl_seconds);
  /// Renews a lease. NotFound if it is over.
  Status KeepAlive(std::int64_t lease);
  Status Revoke(std::int64_t lease);

 private:
  struct Endpoint;

  /// Calls `f`, a function (Endpoint&, grpc::ClientContext&) -> grpc::Status, for one endpoint
  /// after another.
  template <class F>
  Status Call(F f);
  /// Calls `f` for one endpoint. If the endpoint wants a login, logs in and calls `f` once more.
  template <class F>
  grpc::Status CallWithLogin(Endpoint& endpoint, F& f);
  grpc::Status LogIn(Endpoint& endpoint);
  /// The endpoints, made anew if the certificates have changed.
  std::vector<std::shared_ptr<Endpoint>> Endpoints();

  const std::vector<std::string> addresses_;
  const std::shared_ptr<TlsFolder> tls_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Endpoint>> endpoints_ MILLRACE_GUARDED_BY(mutex_);
  std::shared_ptr<const TlsFiles> files_ MILLRACE_GUARDED_BY(mutex_);  // of the endpoints
  std::string token_ MILLRACE_GUARDED_BY(mutex_);        // from the last login; empty: no login
  std::size_t current_ MILLRACE_GUARDED_BY(mutex_) = 0;  // the endpoint that answered last
};

/// The parts of a transaction.
namespace etcd {
etcdserverpb::Compare CreatedAt(const std::string& key, std::int64_t revision);
etcdserverpb::Compare ModifiedAt(const std::string& key, std::int64_t revision);
etcdserverpb::Compare Has(const std::string& key, const std::string& value);
etcdserverpb::RequestOp Get(const std::string& key);
etcdserverpb::RequestOp Put(const std::string& key, const std::string& value,
                            std::int64_t lease = 0);
etcdserverpb::RequestOp Delete(const std::string& key);
/// The first key of the range that step i of the transaction read; null if there is no key.
const mvccpb::KeyValue* Found(const etcdserverpb::TxnResponse& response, int i);
}  // namespace etcd

}  // namespace millrace
