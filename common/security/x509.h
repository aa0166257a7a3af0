// Owners of OpenSSL's objects, and the facts that this project reads from certificates.
//
// Thread-compatible.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

template <auto F>
struct FreeWith {
  template <class T>
  void operator()(T* object) const {
    F(object);
  }
};

using BioPtr = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using X509Ptr = std::unique_ptr<X509, FreeWith<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;

/// The certificates of a PEM text, in its order. Empty if it has no certificate, or a damaged one.
std::vector<X509Ptr> ParseCertificates(std::string_view pem);
/// Null if the text holds no private key.
KeyPtr ParseKey(std::string_view pem);

std::string ToPem(X509& certificate);
std::string ToPem(EVP_PKEY& key);

/// For messages: "CN = alice".
std::string TextOf(const X509_NAME* name);
std::string SubjectOf(X509& certificate);
std::string IssuerOf(X509& certificate);
/// Empty if there is no name.
std::string CommonNameOf(X509& certificate);
std::vector<std::string> DnsNamesOf(X509& certificate);
/// Unix seconds.
std::int64_t BeginOf(X509& certificate);
std::int64_t EndOf(X509& certificate);

/// "2026-11-27 10:00:00 UTC".
std::string UtcText(std::int64_t unix_seconds);

/// The oldest error in OpenSSL's queue of this thread, which is emptied.
std::string TakeSslError();

}  // namespace millrace
