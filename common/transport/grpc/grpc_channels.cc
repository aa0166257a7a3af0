#include "common/transport/grpc/grpc_channels.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/security/tls_probe.h"
#include "common/transport/grpc/failed_channel.h"
#include "common/transport/grpc/grpc_deadline.h"
#include "common/transport/grpc/tls_channel_credentials.h"
#include "common/transport/wire.h"

namespace millrace {
namespace {

constexpr std::size_t kMostChannels = 64;
constexpr std::size_t kMostReasons = 64;
constexpr std::chrono::seconds kKnownFor(10);
/// gRPC's own pauses before it connects again, and its own limit of an attempt. Both are too long
/// to matter: a failed connection is dropped, and ConnectLimit holds.
constexpr int kOwnPauseMs = 60'000;
constexpr double kStopLookSeconds = 0.1;

bool Has(const Status& status, const char* text) {
  return status.message().find(text) != std::string::npos;
}

/// Whether a connection came about, and was closed before a call could begin. Somebody who is not
/// there, or who says nothing, has no mistake in TLS.
bool FailedInHandshake(const Status& status) {
  return status.code() == StatusCode::kUnavailable &&
         Has(status, "failed to connect to all addresses") &&
         !Has(status, "Failed to connect to remote host") && !Has(status, "timed out") &&
         !Has(status, "handshaker shutdown");
}

Status AddReason(const Status& status, const Status& why) {
  return why.ok() ? status : Status(status.code(), why.message());
}

}  // namespace

bool GrpcChannels::Known::holds() const {
  return std::chrono::steady_clock::now() - since < kKnownFor;
}

bool GrpcChannels::WasTurnedAway(const Status& status) {
  return FailedInHandshake(status) ||
         (status.code() == StatusCode::kUnavailable &&
          (Has(status, "Socket closed") || Has(status, "Connection reset")));
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
  std::shared_ptr<grpc::Channel> old;  // ends without the lock
  MutexLock lock(mutex_);
  if (channels_.size() > kMostChannels) {
    // Workers come and go over a month, so connections that nobody uses are closed.
    std::erase_if(channels_,
                  [](const auto& entry) { return entry.second.channel.use_count() == 1; });
  }
  const Key key{address, role};
  Entry& entry = channels_[key];
  if (entry.channel == nullptr || entry.files != files || IsGivenUp(entry)) {
    old = std::move(entry.channel);
    entry.channel = Make(key, files.get());
    entry.files = std::move(files);
  }
  if (entry.channel->GetState(false) == GRPC_CHANNEL_IDLE) {
    entry.begun = std::chrono::steady_clock::now();
  }
  return entry.channel;
}

std::chrono::duration<double> GrpcChannels::ConnectLimit(bool tls) const {
  if (options_.connect_seconds > 0) return std::chrono::duration<double>(options_.connect_seconds);
  return std::chrono::seconds(tls ? 10 : 2);
}

bool GrpcChannels::IsGivenUp(const Entry& entry) const {
  return HasFailed(*entry.channel) ||
         (entry.channel->GetState(false) == GRPC_CHANNEL_CONNECTING &&
          std::chrono::steady_clock::now() - entry.begun >= ConnectLimit(entry.files != nullptr));
}

Status GrpcChannels::Connect(grpc::Channel& channel, const std::string& address,
                             double most_seconds, const std::stop_token& stop) const {
  const auto limit = ConnectLimit(options_.tls != nullptr);
  const auto begun = std::chrono::steady_clock::now();
  for (;;) {
    const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    if (state != GRPC_CHANNEL_IDLE && state != GRPC_CHANNEL_CONNECTING) return OkStatus();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    if (stop.stop_requested() || taken.count() >= most_seconds) return OkStatus();
    if (taken >= limit) {
      return Unavailable(
          fmt::format("no connection to {} within {:.1f} s; is it stopped, hung or unreachable?",
                      address, limit.count()));
    }
    channel.WaitForStateChange(state, SecondsFromNow(kStopLookSeconds));
  }
}

void GrpcChannels::GiveUpFailed(const Key& key) {
  std::shared_ptr<grpc::Channel> old;  // ends without the lock
  MutexLock lock(mutex_);
  const auto entry = channels_.find(key);
  if (entry == channels_.end() || !HasFailed(*entry->second.channel)) return;
  old = std::move(entry->second.channel);
  channels_.erase(entry);
}

void GrpcChannels::Keep(std::shared_ptr<grpc::Channel> channel) {
  MutexLock lock(mutex_);
  channel.swap(kept_);  // the old one ends after the lock
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
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kOwnPauseMs);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kOwnPauseMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kOwnPauseMs);
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

std::optional<Status> GrpcChannels::WithReason(const Status& status, const Key& key) const {
  const auto known = reasons_.find(key);
  if (known == reasons_.end() || !known->second.holds()) return std::nullopt;
  return AddReason(status, known->second.status);
}

Status GrpcChannels::Look(const std::string& address, PeerRole role, double most_seconds,
                          const std::stop_token& stop, const Call& call) {
  const Key key{address, role};
  {
    MutexLock lock(mutex_);
    if (const auto last = unexplained_.extract(key); !last.empty() && last.mapped().holds()) {
      lock.Unlock();
      return AddReason(last.mapped().status, FindReason(key));
    }
  }
  const std::shared_ptr<grpc::Channel> channel = Get(address, role);
  MILLRACE_RETURN_IF_ERROR(Connect(*channel, address, most_seconds, stop));
  const Status status = call(channel);
  GiveUpFailed(key);
  if (!FailedInHandshake(status)) return status;
  MutexLock lock(mutex_);
  if (const std::optional<Status> explained = WithReason(status, key)) return *explained;
  if (unexplained_.size() >= kMostReasons) unexplained_.clear();
  unexplained_[key] = {status, std::chrono::steady_clock::now()};
  return status;
}

Status GrpcChannels::Explain(const Status& status, const std::string& address, PeerRole role) {
  const Key key{address, role};
  GiveUpFailed(key);
  if (!FailedInHandshake(status)) return status;
  MutexLock lock(mutex_);
  if (const std::optional<Status> explained = WithReason(status, key)) return *explained;
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
