// An etcd v3 cluster through its own gRPC API. Calls go to one endpoint; where that does not
// answer, to the next, so that a call is done once or, after an answer that was lost, twice:
// callers compare before they write.
//
// Thread-safe. Calls block, at most a second an endpoint.
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

/// Codes: Unavailable where no endpoint, or no quorum, answers; ResourceExhausted where etcd is out
/// of space, with what to do; NotFound for a lease that is over; PermissionDenied; InvalidArgument
/// for what etcd finds too large. Messages name the endpoint.
class EtcdClient {
 public:
  explicit EtcdClient(std::vector<std::string> endpoints);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  Result<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request);
  Result<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request);

  /// A new lease: its id.
  Result<std::int64_t> Grant(std::int64_t ttl_seconds);
  /// Renews a lease: NotFound where it is over.
  Status KeepAlive(std::int64_t lease);
  Status Revoke(std::int64_t lease);

 private:
  struct Endpoint;

  /// Calls `f` (Endpoint&, grpc::ClientContext&) -> grpc::Status.
  template <class F>
  Status Call(F f);

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  Mutex mutex_;
  std::size_t current_ MILLRACE_GUARDED_BY(mutex_) = 0;  // the one that answered last
};

/// What a transaction is made of.
namespace etcd {
etcdserverpb::Compare CreatedAt(const std::string& key, std::int64_t revision);
etcdserverpb::Compare ModifiedAt(const std::string& key, std::int64_t revision);
etcdserverpb::Compare Has(const std::string& key, const std::string& value);
etcdserverpb::RequestOp Get(const std::string& key);
etcdserverpb::RequestOp Put(const std::string& key, const std::string& value,
                            std::int64_t lease = 0);
etcdserverpb::RequestOp Delete(const std::string& key);
/// The first key of the range that the transaction's i-th step read; null where there is none.
const mvccpb::KeyValue* Found(const etcdserverpb::TxnResponse& response, int i);
}  // namespace etcd

}  // namespace millrace
