#include "common/security/make_certificates.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/rand.h>

#include <algorithm>
#include <utility>

#include "common/security/x509.h"

namespace millrace {
namespace {

constexpr std::size_t kMostNameBytes = 64;  // of a common name: RFC 5280, ub-common-name

Status Failed(const char* what) {
  return Internal(std::string("cannot ") + what + ": " + TakeSslError());
}

Status AddExtension(X509& certificate, X509& issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr || X509_add_ext(&certificate, extension.get(), -1) != 1) {
    return Failed("add an extension to a certificate");
  }
  return OkStatus();
}

Status SetSerial(X509& certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return Failed("make a serial number");
  bytes[0] &= 0x7f;  // positive
  const std::unique_ptr<BIGNUM, FreeWith<BN_free>> number(BN_bin2bn(bytes, sizeof bytes, nullptr));
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(&certificate));
  return OkStatus();
}

/// A certificate for `key`, without issuer, extensions and signature.
Result<X509Ptr> Begin(const CertificateRequest& request, EVP_PKEY& key) {
  if (request.name.empty() || request.name.size() > kMostNameBytes) {
    return InvalidArgument("name '" + request.name + "': expected 1 to " +
                           std::to_string(kMostNameBytes) + " bytes");
  }
  X509Ptr certificate(X509_new());
  X509_set_version(certificate.get(), X509_VERSION_3);
  MILLRACE_RETURN_IF_ERROR(SetSerial(*certificate));
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), static_cast<time_t>(request.begin));
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), static_cast<time_t>(request.end));
  X509_set_pubkey(certificate.get(), &key);
  const int added = X509_NAME_add_entry_by_NID(
      X509_get_subject_name(certificate.get()), NID_commonName, MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(request.name.data()),
      static_cast<int>(request.name.size()), -1, 0);
  if (added != 1) return InvalidArgument("name '" + request.name + "': " + TakeSslError());
  return certificate;
}

Result<CertificateAndKey> Sign(X509& certificate, EVP_PKEY& key, X509& issuer,
                               EVP_PKEY& issuer_key) {
  X509_set_issuer_name(&certificate, X509_get_subject_name(&issuer));
  MILLRACE_RETURN_IF_ERROR(AddExtension(certificate, issuer, NID_subject_key_identifier, "hash"));
  MILLRACE_RETURN_IF_ERROR(
      AddExtension(certificate, issuer, NID_authority_key_identifier, "keyid"));
  if (X509_sign(&certificate, &issuer_key, EVP_sha256()) == 0) return Failed("sign a certificate");
  return CertificateAndKey{ToPem(certificate), ToPem(key)};
}

KeyPtr NewKey() { return KeyPtr(EVP_EC_gen("P-256")); }

}  // namespace

Result<CertificateAndKey> MakeCa(const CertificateRequest& request) {
  const KeyPtr key = NewKey();
  if (key == nullptr) return Failed("make a key");
  MILLRACE_ASSIGN_OR_RETURN(const X509Ptr ca, Begin(request, *key));
  X509_set_issuer_name(ca.get(), X509_get_subject_name(ca.get()));
  MILLRACE_RETURN_IF_ERROR(
      AddExtension(*ca, *ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  MILLRACE_RETURN_IF_ERROR(AddExtension(*ca, *ca, NID_key_usage, "critical,keyCertSign,cRLSign"));
  return Sign(*ca, *key, *ca, *key);
}

Result<CertificateAndKey> MakeCertificate(const CertificateAndKey& ca,
                                          const CertificateRequest& request) {
  const std::vector<X509Ptr> issuer = ParseCertificates(ca.certificate);
  const KeyPtr issuer_key = ParseKey(ca.key);
  if (issuer.empty() || issuer_key == nullptr ||
      X509_check_private_key(issuer.front().get(), issuer_key.get()) != 1) {
    (void)TakeSslError();
    return InvalidArgument("the CA's certificate and key do not belong together, or are no PEM");
  }
  const KeyPtr key = NewKey();
  if (key == nullptr) return Failed("make a key");
  MILLRACE_ASSIGN_OR_RETURN(const X509Ptr certificate, Begin(request, *key));
  X509& by = *issuer.front();
  MILLRACE_RETURN_IF_ERROR(
      AddExtension(*certificate, by, NID_basic_constraints, "critical,CA:FALSE"));
  MILLRACE_RETURN_IF_ERROR(
      AddExtension(*certificate, by, NID_key_usage, "critical,digitalSignature"));
  MILLRACE_RETURN_IF_ERROR(
      AddExtension(*certificate, by, NID_ext_key_usage, "serverAuth,clientAuth"));
  std::string names;
  for (const PeerRole role : kPeerRoles) {
    if (!request.roles.Has(role)) continue;
    names += (names.empty() ? "DNS:" : ",DNS:") + DnsNameOf(role);
  }
  for (const std::string& address : request.addresses) {
    names += (names.empty() ? "IP:" : ",IP:") + address;
  }
  if (!names.empty()) {
    MILLRACE_RETURN_IF_ERROR(AddExtension(*certificate, by, NID_subject_alt_name, names));
  }
  return Sign(*certificate, *key, by, *issuer_key);
}

}  // namespace millrace
