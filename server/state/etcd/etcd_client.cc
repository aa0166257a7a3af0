#include "server/state/etcd/etcd_client.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "common/system/read_text_file.h"
#include "common/transport/grpc/failed_channel.h"
#include "common/transport/grpc/tls_channel_credentials.h"
#include "etcd/rpc.grpc.pb.h"

namespace millrace {
namespace {

constexpr int kTimeoutMilliseconds = 1000;  // per endpoint
constexpr int kMostReceived = 256 << 20;    // bytes: a page of records, each of at most 1.5 MiB

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  // How long connecting may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kTimeoutMilliseconds);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kTimeoutMilliseconds);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kTimeoutMilliseconds);
  arguments.SetMaxReceiveMessageSize(kMostReceived);
  // The default is a pool for the whole process, in which a new channel finds the failed attempt of
  // the old one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

/// The time `milliseconds` from now. It does not use the wall clock, which may jump.
gpr_timespec After(int milliseconds) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(milliseconds, GPR_TIMESPAN));
}

/// Whether another endpoint may give a better answer.
bool IsOfEndpoint(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return true;
    default:
      return false;
  }
}

Status FromEtcd(const grpc::Status& status, const std::string& endpoint) {
  const std::string what = "etcd at " + endpoint + ": " + status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return ResourceExhausted(
          what + (what.find("space") == std::string::npos
                      ? ""
                      : ": compact and defragment it, then disarm its NOSPACE alarm"));
    case grpc::StatusCode::NOT_FOUND:
      return NotFound(what);
    case grpc::StatusCode::INVALID_ARGUMENT:
      return InvalidArgument(what);
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return PermissionDenied(what);
    default:
      return Unavailable(what);
  }
}

/// Whether etcd wants a login, or another one: its tokens end after some minutes.
bool WantsLogin(const grpc::Status& status) {
  const auto says = [&status](const char* text) {
    return status.error_message().find(text) != std::string::npos;
  };
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED || says("user name is empty") ||
         says("invalid auth token") || says("revision of auth store is old");
}

}  // namespace

struct EtcdClient::Endpoint {
  Endpoint(const std::string& at, const TlsFiles* files)
      : address(at),
        channel(grpc::CreateCustomChannel(at, ChannelCredentialsOf(files), Arguments())),
        kv(channel),
        lease(channel),
        auth(channel) {}

  const std::string address;
  const std::shared_ptr<grpc::Channel> channel;
  etcdserverpb::KV::Stub kv;
  etcdserverpb::Lease::Stub lease;
  etcdserverpb::Auth::Stub auth;
};

EtcdClient::EtcdClient(std::vector<std::string> endpoints, std::shared_ptr<TlsFolder> tls)
    : addresses_(std::move(endpoints)), tls_(std::move(tls)) {}

EtcdClient::~EtcdClient() = default;

std::vector<std::shared_ptr<EtcdClient::Endpoint>> EtcdClient::Endpoints() {
  std::shared_ptr<const TlsFiles> files = tls_ == nullptr ? nullptr : tls_->Current();
  MutexLock lock(mutex_);
  endpoints_.resize(addresses_.size());
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    if (endpoints_[i] == nullptr || files != files_ || HasFailed(*endpoints_[i]->channel)) {
      endpoints_[i] = std::make_shared<Endpoint>(addresses_[i], files.get());
    }
  }
  files_ = std::move(files);
  return endpoints_;
}

template <class F>
Status EtcdClient::Call(F f) {
  const std::vector<std::shared_ptr<Endpoint>> endpoints = Endpoints();
  std::size_t at = 0;
  {
    MutexLock lock(mutex_);
    at = current_;
  }
  Status why;
  for (std::size_t tries = 0; tries < endpoints.size(); ++tries) {
    Endpoint& endpoint = *endpoints[at];
    const grpc::Status status = CallWithLogin(endpoint, f);
    if (!status.ok()) why = FromEtcd(status, endpoint.address);
    if (!IsOfEndpoint(status.error_code())) {
      MutexLock lock(mutex_);
      current_ = at;
      return status.ok() ? OkStatus() : why;
    }
    at = (at + 1) % endpoints.size();
  }
  return why;
}

template <class F>
grpc::Status EtcdClient::CallWithLogin(Endpoint& endpoint, F& f) {
  for (bool again = false;; again = true) {
    grpc::ClientContext context;
    context.set_deadline(After(kTimeoutMilliseconds));
    // With this, a member that has lost its quorum answers so, and does not let the call wait.
    context.AddMetadata("hasleader", "true");
    {
      MutexLock lock(mutex_);
      if (!token_.empty()) context.AddMetadata("token", token_);
    }
    const grpc::Status status = f(endpoint, context);
    if (again || tls_ == nullptr || !WantsLogin(status)) return status;
    const grpc::Status in = LogIn(endpoint);
    if (!in.ok()) return in;
  }
}

grpc::Status EtcdClient::LogIn(Endpoint& endpoint) {
  etcdserverpb::AuthenticateRequest request;
  for (const auto& [file, field] : {std::pair("username", request.mutable_name()),
                                    std::pair("password", request.mutable_password())}) {
    Result<std::string> text = ReadTextFile(tls_->path() + "/" + file);
    if (!text.ok()) {
      return {grpc::StatusCode::UNAUTHENTICATED,
              "etcd wants to know who this is: expected a certificate, or the files username and "
              "password: " +
                  text.status().message()};
    }
    *field = text->substr(0, text->find_last_not_of("\r\n") + 1);
  }
  grpc::ClientContext context;
  context.set_deadline(After(kTimeoutMilliseconds));
  etcdserverpb::AuthenticateResponse response;
  const grpc::Status status = endpoint.auth.Authenticate(&context, request, &response);
  MutexLock lock(mutex_);
  token_ = response.token();
  return status;
}

Result<etcdserverpb::RangeResponse> EtcdClient::Range(const etcdserverpb::RangeRequest& request) {
  etcdserverpb::RangeResponse response;
  MILLRACE_RETURN_IF_ERROR(Call([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.kv.Range(&context, request, &response);
  }));
  return response;
}

Result<etcdserverpb::TxnResponse> EtcdClient::Txn(const etcdserverpb::TxnRequest& request) {
  etcdserverpb::TxnResponse response;
  MILLRACE_RETURN_IF_ERROR(Call([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.kv.Txn(&context, request, &response);
  }));
  return response;
}

Result<std::int64_t> EtcdClient::Grant(std::int64_t ttl_seconds) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(ttl_seconds);
  etcdserverpb::LeaseGrantResponse response;
  MILLRACE_RETURN_IF_ERROR(Call([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.lease.LeaseGrant(&context, request, &response);
  }));
  if (!response.error().empty()) return Unavailable("etcd gives no lease: " + response.error());
  return response.id();
}

Status EtcdClient::KeepAlive(std::int64_t lease) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  MILLRACE_RETURN_IF_ERROR(Call([&](Endpoint& endpoint, grpc::ClientContext& context) {
    const auto stream = endpoint.lease.LeaseKeepAlive(&context);
    const bool answered = stream->Write(request) && stream->Read(&response);
    if (answered) {
      // The end of the stream adds nothing to the answer.
      context.TryCancel();
      (void)stream->Finish();
      return grpc::Status::OK;
    }
    const grpc::Status status = stream->Finish();
    return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer") : status;
  }));
  if (response.ttl() <= 0) return NotFound("etcd: the lease is over");
  return OkStatus();
}

Status EtcdClient::Revoke(std::int64_t lease) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse response;
  return Call([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.lease.LeaseRevoke(&context, request, &response);
  });
}

namespace etcd {

using etcdserverpb::Compare;
using etcdserverpb::RequestOp;

Compare CreatedAt(const std::string& key, std::int64_t revision) {
  Compare compare;
  compare.set_target(Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(revision);
  return compare;
}

Compare ModifiedAt(const std::string& key, std::int64_t revision) {
  Compare compare;
  compare.set_target(Compare::MOD);
  compare.set_key(key);
  compare.set_mod_revision(revision);
  return compare;
}

Compare Has(const std::string& key, const std::string& value) {
  Compare compare;
  compare.set_target(Compare::VALUE);
  compare.set_key(key);
  compare.set_value(value);
  return compare;
}

RequestOp Get(const std::string& key) {
  RequestOp op;
  op.mutable_request_range()->set_key(key);
  return op;
}

RequestOp Put(const std::string& key, const std::string& value, std::int64_t lease) {
  RequestOp op;
  op.mutable_request_put()->set_key(key);
  op.mutable_request_put()->set_value(value);
  op.mutable_request_put()->set_lease(lease);
  return op;
}

RequestOp Delete(const std::string& key) {
  RequestOp op;
  op.mutable_request_delete_range()->set_key(key);
  return op;
}

const mvccpb::KeyValue* Found(const etcdserverpb::TxnResponse& response, int i) {
  if (i >= response.responses_size()) return nullptr;
  const auto& range = response.responses(i).response_range();
  return range.kvs_size() == 0 ? nullptr : &range.kvs(0);
}

}  // namespace etcd
}  // namespace millrace
