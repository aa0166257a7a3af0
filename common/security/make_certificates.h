// Makes certificates, for people who have no other CA. Keys are P-256, and signatures ECDSA with
// SHA-256.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/access/role.h"
#include "common/base/result.h"

namespace millrace {

/// PEM texts.
struct CertificateAndKey {
  std::string certificate;
  std::string key;
};

struct CertificateRequest {
  std::string name;                         // the subject's common name
  PeerRoles roles;                          // as DNS names
  std::vector<std::string> addresses = {};  // IP addresses, for servers that are known by them
  std::int64_t begin = 0;                   // unix seconds
  std::int64_t end = 0;
};

/// A CA that signs itself. `roles` are ignored.
Result<CertificateAndKey> MakeCa(const CertificateRequest& request);

/// A certificate that `ca` signs, for either end of a connection. InvalidArgument if `ca` is not a
/// CA.
Result<CertificateAndKey> MakeCertificate(const CertificateAndKey& ca,
                                          const CertificateRequest& request);

}  // namespace millrace
