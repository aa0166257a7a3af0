// Decides about every call of a server of this project: who the peer is, and whether it may call
// that method.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <grpcpp/grpcpp.h>

#include "common/access/access_policy.h"
#include "common/access/identity.h"
#include "common/base/result.h"
#include "common/transport/grpc/refused_call.h"

namespace millrace {

/// Thread-safe.
class CallGate {
 public:
  /// `policy`: null for a server without TLS. Then peers are not identified, and may call
  /// everything.
  explicit CallGate(std::shared_ptr<AccessPolicy> policy, OnRefusedCall on_refused = nullptr);

  /// The peer of a call of `method` ("/millrace.v1.Dispatcher/Attach"). Unauthenticated if it does
  /// not prove its identity, or sends a token over a connection that everybody can read.
  /// PermissionDenied if it may not call the method.
  Result<Peer> Admit(std::string_view method, const Shown& shown, std::string address);
  Result<Peer> Admit(std::string_view method, const grpc::CallbackServerContext& context);
  /// A check for calls that stay open: Unavailable when the peer's proofs no longer give the
  /// admitted identity. If it connects again, Admit decides its rights. The check is thread-safe,
  /// and does not need this object; null if nothing can change.
  std::function<Status()> StillAdmits(const grpc::CallbackServerContext& context,
                                      const Identity& admitted) const;

 private:
  Result<Identity> Identify(const Shown& shown);
  Shown ShownBy(const grpc::CallbackServerContext& context) const;

  const std::shared_ptr<AccessPolicy> policy_;
  const OnRefusedCall on_refused_;
};

/// The token in the value of the header `authorization`: the text after "Bearer ". Empty if there
/// is no token.
std::string BearerToken(std::string_view authorization);

}  // namespace millrace
