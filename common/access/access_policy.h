// Decides who a peer is, from its proofs at the connection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/access/identity.h"
#include "common/base/result.h"

namespace millrace {

/// The proofs of a peer with TLS. Its certificate was verified.
struct Shown {
  bool certificate = false;
  std::string common_name;
  std::vector<std::string> dns_names;
  std::string token;  // empty: no token
};

/// Thread-safe.
class AccessPolicy {
 public:
  virtual ~AccessPolicy() = default;
  /// Unauthenticated, with what is missing, if the peer proves nothing. A peer that shows a
  /// certificate and a token gets the identity of the certificate.
  virtual Result<Identity> Identify(const Shown& shown) = 0;
  /// Whether peers without a certificate may connect, to show a token.
  virtual bool takes_tokens() const = 0;
  /// Another number when Identify may have another answer for the same proofs. Applies changes
  /// since the last check, as Identify does.
  virtual std::uint64_t version() { return 0; }
};

/// The policy without an access file: certificates suffice, and there are no tokens.
class CertificatePolicy final : public AccessPolicy {
 public:
  Result<Identity> Identify(const Shown& shown) override;
  bool takes_tokens() const override { return false; }
};

/// The identity that a certificate gives: its name is the common name, or otherwise the first DNS
/// name that is no role. REQUIRES: shown.certificate.
Identity IdentityOfCertificate(const Shown& shown);

}  // namespace millrace
