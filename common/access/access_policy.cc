#include "common/access/access_policy.h"

#include <algorithm>

namespace millrace {

Identity IdentityOfCertificate(const Shown& shown) {
  Identity identity;
  identity.proved = true;
  identity.roles = RolesAmong(shown.dns_names);
  identity.name = shown.common_name;
  const auto& names = shown.dns_names;
  if (identity.name.empty()) {
    const auto other = std::find_if(names.begin(), names.end(), [](const std::string& name) {
      return RolesAmong({name}).empty();
    });
    if (other != names.end()) identity.name = *other;
  }
  return identity;
}

Result<Identity> CertificatePolicy::Identify(const Shown& shown) {
  if (shown.certificate) return IdentityOfCertificate(shown);
  return Status(StatusCode::kUnauthenticated,
                shown.token.empty()
                    ? "no certificate: expected tls.crt and tls.key in the folder for TLS"
                    : "a token, but this server takes none: it has no access file with tokens");
}

}  // namespace millrace
