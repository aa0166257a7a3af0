#include "common/transport/grpc/call_gate.h"

#include <grpc/grpc_security_constants.h>

#include <atomic>
#include <utility>

#include "common/access/rights.h"

namespace millrace {

CallGate::CallGate(std::shared_ptr<AccessPolicy> policy, OnRefusedCall on_refused)
    : policy_(std::move(policy)), on_refused_(std::move(on_refused)) {}

Result<Identity> CallGate::Identify(const Shown& shown) {
  if (policy_ != nullptr) return policy_->Identify(shown);
  if (shown.token.empty()) return Identity();
  return Status(StatusCode::kUnauthenticated,
                "a token came over a connection without TLS, where others can read it: make a new "
                "one, and connect with --tls");
}

Result<Peer> CallGate::Admit(std::string_view method, const Shown& shown, std::string address) {
  Peer peer{std::move(address)};
  Status refused;
  if (Result<Identity> identity = Identify(shown); identity.ok()) {
    peer.identity = *std::move(identity);
    refused = CheckRight(method, peer.identity);
  } else {
    refused = identity.status();
  }
  if (refused.ok()) return peer;
  if (on_refused_) on_refused_(method, peer, refused);
  return refused;
}

Shown CallGate::ShownBy(const grpc::CallbackServerContext& context) const {
  Shown shown;
  const auto& headers = context.client_metadata();
  if (const auto header = headers.find("authorization"); header != headers.end()) {
    shown.token = BearerToken({header->second.data(), header->second.size()});
  }
  if (const auto auth = context.auth_context(); auth != nullptr && policy_ != nullptr) {
    const auto text = [](const grpc::string_ref& ref) {
      return std::string(ref.data(), ref.size());
    };
    for (const grpc::string_ref& name : auth->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME)) {
      shown.common_name = text(name);
    }
    for (const grpc::string_ref& name : auth->FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME)) {
      shown.dns_names.push_back(text(name));
    }
    shown.certificate = !auth->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME).empty();
  }
  return shown;
}

Result<Peer> CallGate::Admit(std::string_view method, const grpc::CallbackServerContext& context) {
  return Admit(method, ShownBy(context), context.peer());
}

std::function<Status()> CallGate::StillAdmits(const grpc::CallbackServerContext& context,
                                              const Identity& admitted) const {
  if (policy_ == nullptr) return nullptr;
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  const auto known = std::make_shared<std::atomic<std::uint64_t>>(kNone);  // version that admits it
  return [policy = policy_, shown = ShownBy(context), admitted, known]() -> Status {
    const std::uint64_t version = policy->version();
    if (*known == version) return OkStatus();
    const Result<Identity> now = policy->Identify(shown);
    if (now.ok() && *now == admitted) {
      *known = version;
      return OkStatus();
    }
    return Unavailable("what " + admitted.name + " may do here has changed: connect again");
  };
}

std::string BearerToken(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!authorization.starts_with(kScheme)) return {};
  return std::string(authorization.substr(kScheme.size()));
}

}  // namespace millrace
