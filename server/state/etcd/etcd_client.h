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
  explicit EtcdClient(std::vector<std::string> endpoints);
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
  /// Waits for a moment until some endpoint is connected. gRPC reads from a connection that it
  /// makes only while some call waits for it. A call that is refused at once does not wait, so a
  /// caller that tries again and again could keep the connection from ever being made.
  void LetConnect();

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  Mutex mutex_;
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
/// The first key of the range that step i of the transaction read; null if there is none.
const mvccpb::KeyValue* Found(const etcdserverpb::TxnResponse& response, int i);
}  // namespace etcd

}  // namespace millrace
