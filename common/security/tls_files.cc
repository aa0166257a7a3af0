#include "common/security/tls_files.h"

#include <openssl/x509_vfy.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/access/access_policy.h"
#include "common/security/x509.h"
#include "common/system/read_text_file.h"

namespace millrace {
namespace {

constexpr std::string_view kHowToMake =
    "make certificates with `millrace certs`, or see docs/guides/security.md";

Result<std::vector<X509Ptr>> ReadCertificates(const std::string& path, const std::string& text) {
  std::vector<X509Ptr> certificates = ParseCertificates(text);
  if (certificates.empty()) {
    return InvalidArgument(path + " holds no certificate that can be read: expected PEM");
  }
  return certificates;
}

/// Checks that `at` lies between the certificate's begin and end.
Status CheckTime(const std::string& path, X509& certificate, std::int64_t at) {
  if (at < BeginOf(certificate)) {
    return FailedPrecondition(
        fmt::format("{} is not valid before {}, and now it is {}: wait, or "
                    "set this machine's clock",
                    path, UtcText(BeginOf(certificate)), UtcText(at)));
  }
  if (at > EndOf(certificate)) {
    return FailedPrecondition(fmt::format("{} expired on {}, and now it is {}: renew it", path,
                                          UtcText(EndOf(certificate)), UtcText(at)));
  }
  return OkStatus();
}

/// Checks that a certificate of `ca` signed the first one of `chain`, through the others of it.
/// Times are checked apart, for clearer messages.
Status CheckSigned(const std::string& folder, const std::vector<X509Ptr>& ca,
                   const std::vector<X509Ptr>& chain) {
  const std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>> store(X509_STORE_new());
  for (const X509Ptr& certificate : ca) X509_STORE_add_cert(store.get(), certificate.get());
  // ca.crt may hold an intermediate CA alone, as cert-manager writes it for some issuers.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_NO_CHECK_TIME | X509_V_FLAG_PARTIAL_CHAIN);
  const std::unique_ptr<STACK_OF(X509), FreeWith<[](STACK_OF(X509) * s) { sk_X509_free(s); }>>
      others(sk_X509_new_null());
  for (std::size_t i = 1; i < chain.size(); ++i) sk_X509_push(others.get(), chain[i].get());
  const std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>> context(
      X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), others.get());
  if (X509_verify_cert(context.get()) == 1) return OkStatus();
  return FailedPrecondition(fmt::format(
      "{}/tls.crt was not signed by {}/ca.crt: {} (its issuer is {}, and ca.crt is of {})", folder,
      folder, X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())),
      IssuerOf(*chain.front()), SubjectOf(*ca.front())));
}

}  // namespace

Result<TlsFiles> ReadTlsFiles(const std::string& folder, PeerRoles roles, TlsProof proof,
                              std::int64_t unix_seconds) {
  TlsFiles files;
  const bool token_will_do = proof == TlsProof::kCertificateOrToken;
  const auto here = [&folder](const char* file) { return folder + "/" + file; };
  const auto read = [&](const char* file) {
    Result<std::string> text = ReadTextFile(here(file));
    if (text.ok() || text.status().code() != StatusCode::kNotFound) return text;
    return Result<std::string>(
        NotFound(fmt::format("{}: expected {} in a folder for TLS; {}", text.status().message(),
                             token_will_do ? "ca.crt, and either tls.crt and tls.key or token"
                                           : "ca.crt, tls.crt and tls.key",
                             kHowToMake)));
  };
  MILLRACE_ASSIGN_OR_RETURN(files.ca, read("ca.crt"));
  MILLRACE_ASSIGN_OR_RETURN(const auto ca, ReadCertificates(here("ca.crt"), files.ca));
  MILLRACE_RETURN_IF_ERROR(CheckTime(here("ca.crt"), *ca.front(), unix_seconds));
  files.ends = EndOf(*ca.front());

  if (Result<std::string> token = ReadTextFile(here("token")); token_will_do && token.ok()) {
    files.token = *std::move(token);
    while (!files.token.empty() && std::isspace(static_cast<unsigned char>(files.token.back())))
      files.token.pop_back();
    if (files.token.empty()) return InvalidArgument(here("token") + " is empty");
  }
  Result<std::string> certificate = read("tls.crt");
  if (!certificate.ok()) {
    const bool may_lack = !files.token.empty() || proof == TlsProof::kNone;
    if (may_lack && certificate.status().code() == StatusCode::kNotFound) return files;
    return certificate.status();
  }
  files.certificate = *std::move(certificate);
  MILLRACE_ASSIGN_OR_RETURN(files.key, read("tls.key"));
  MILLRACE_ASSIGN_OR_RETURN(const auto chain, ReadCertificates(here("tls.crt"), files.certificate));
  const KeyPtr key = ParseKey(files.key);
  if (key == nullptr) {
    return InvalidArgument(here("tls.key") +
                           " holds no private key that can be read: expected PEM, not encrypted");
  }
  X509& own = *chain.front();
  const bool is_its_key = X509_check_private_key(&own, key.get()) == 1;
  (void)TakeSslError();
  if (!is_its_key) {
    return FailedPrecondition(here("tls.key") + " is not the key of " + here("tls.crt"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckTime(here("tls.crt"), own, unix_seconds));
  MILLRACE_RETURN_IF_ERROR(CheckSigned(folder, ca, chain));
  const Identity identity = IdentityOfCertificate(
      {.certificate = true, .common_name = CommonNameOf(own), .dns_names = DnsNamesOf(own)});
  files.name = identity.name;
  files.roles = identity.roles;
  files.ends = std::min(files.ends, EndOf(own));
  if (!files.roles.HasAll(roles)) {
    return FailedPrecondition(fmt::format(
        "{} is a certificate of the role {}: expected {}, each as {}.millrace among its DNS names",
        here("tls.crt"), files.roles.ToString(), roles.ToString(), "<role>"));
  }
  return files;
}

}  // namespace millrace
