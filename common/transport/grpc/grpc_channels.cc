#include "common/transport/grpc/grpc_channels.h"

#include <algorithm>
#include <utility>

#include "common/security/tls_probe.h"
#include "common/transport/grpc/tls_channel_credentials.h"
#include "common/transport/wire.h"

namespace millrace {
namespace {

constexpr std::size_t kMostChannels = 64;
constexpr std::size_t kMostReasons = 64;
constexpr std::chrono::seconds kReasonHolds(10);

}  // namespace

bool GrpcChannels::WasTurnedAway(const Status& status) {
  const std::string& text = status.message();
  const auto has = [&text](const char* part) { return text.find(part) != std::string::npos; };
  return status.code() == StatusCode::kUnavailable && !has("Connection refused") &&
         (has("failed to connect to all addresses") || has("Socket closed") ||
          has("Connection reset"));
}

GrpcChannels::~GrpcChannels() {
  std::thread explainer;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    explainer = std::move(explainer_);
  }
  if (explainer.joinable()) explainer.join();
}

std::shared_ptr<const TlsFiles> GrpcChannels::Files() const {
  return options_.tls == nullptr ? nullptr : options_.tls->Current();
}

std::shared_ptr<grpc::Channel> GrpcChannels::Get(const std::string& address, PeerRole role) {
  std::shared_ptr<const TlsFiles> files = Files();
  MutexLock lock(mutex_);
  if (channels_.size() > kMostChannels) {
    // Workers come and go over a month, so connections that nobody uses are closed.
    std::erase_if(channels_,
                  [](const auto& entry) { return entry.second.channel.use_count() == 1; });
  }
  const Key key{address, role};
  Entry& entry = channels_[key];
  if (entry.channel == nullptr || entry.files != files) {
    entry.channel = Make(key, files.get());
    entry.files = std::move(files);
  }
  return entry.channel;
}

std::shared_ptr<grpc::Channel> GrpcChannels::Make(const Key& key, const TlsFiles* files) const {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(wire::kMaxControlMessageBytes);
  args.SetMaxSendMessageSize(wire::kMaxToDispatcherBytes);
  // Each connector has its own connections, so that ranks in one process do not share a socket.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(options_.keepalive_seconds * 1e3));
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
              static_cast<int>(options_.keepalive_timeout_seconds * 1e3));
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The session retries, with its own jitter. So gRPC's back-off stays short. The first of these is
  // also how long connecting may take: a server does one handshake after another, and if all of a
  // large fleet come at once, most of them wait for seconds.
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, files == nullptr ? 2000 : 10'000);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Servers are known by their roles: workers are reached by whatever address they have.
  if (files != nullptr) args.SetSslTargetNameOverride(DnsNameOf(key.role));
  return grpc::CreateCustomChannel(key.address, ChannelCredentialsOf(files), args);
}

void GrpcChannels::Prepare(grpc::ClientContext& context) {
  const std::shared_ptr<const TlsFiles> files = Files();
  if (files == nullptr || !files->certificate.empty() || files->token.empty()) return;
  context.AddMetadata("authorization", "Bearer " + files->token);
}

Status GrpcChannels::FindReason(const Key& key) {
  const std::shared_ptr<const TlsFiles> files = Files();
  Status why = ExplainTls({.address = key.address,
                           .files = files.get(),
                           .folder = options_.tls == nullptr ? "" : options_.tls->path(),
                           .server = key.role});
  MutexLock lock(mutex_);
  if (reasons_.size() >= kMostReasons) reasons_.clear();
  reasons_[key] = {why, std::chrono::steady_clock::now()};
  return why;
}

Status GrpcChannels::Explain(const Status& status, const std::string& address, PeerRole role) {
  if (!WasTurnedAway(status)) return status;
  const Status why = FindReason({address, role});
  return why.ok() ? status : Status(status.code(), why.message());
}

Status GrpcChannels::ExplainLater(const Status& status, const std::string& address, PeerRole role) {
  if (!WasTurnedAway(status)) return status;
  const Key key{address, role};
  MutexLock lock(mutex_);
  const auto known = reasons_.find(key);
  if (known != reasons_.end() &&
      std::chrono::steady_clock::now() - known->second.found < kReasonHolds) {
    const Status& why = known->second.why;
    return why.ok() ? status : Status(status.code(), why.message());
  }
  const bool asked = std::find(to_explain_.begin(), to_explain_.end(), key) != to_explain_.end();
  if (asked || stopping_ || to_explain_.size() >= kMostReasons) return status;
  to_explain_.push_back(key);
  changed_.NotifyAll();
  if (!explainer_.joinable()) explainer_ = std::thread([this] { FindReasons(); });
  return status;
}

void GrpcChannels::FindReasons() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (to_explain_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    const Key key = to_explain_.front();
    lock.Unlock();
    (void)FindReason(key);
    lock.Lock();
    to_explain_.pop_front();
  }
}

}  // namespace millrace
