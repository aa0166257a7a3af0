#include "common/security/x509.h"

#include <openssl/asn1.h>
#include <openssl/err.h>

#include <ctime>

namespace millrace {
namespace {

BioPtr MemoryReader(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TextOf(BIO& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(&bio, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

std::int64_t UnixSecondsOf(const ASN1_TIME* time) {
  std::tm utc{};
  if (ASN1_TIME_to_tm(time, &utc) != 1) return 0;
  return static_cast<std::int64_t>(timegm(&utc));
}

std::string Utf8Of(const ASN1_STRING* text) {
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, text);
  if (size < 0) return {};
  std::string result(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(size));
  OPENSSL_free(utf8);
  return result;
}

}  // namespace

std::vector<X509Ptr> ParseCertificates(std::string_view pem) {
  std::vector<X509Ptr> certificates;
  const BioPtr in = MemoryReader(pem);
  while (X509* const next = PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(next);
  }
  // The text ends where no further PEM begins. Any other error is a damaged certificate.
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!ended) certificates.clear();
  return certificates;
}

KeyPtr ParseKey(std::string_view pem) {
  const BioPtr in = MemoryReader(pem);
  // Without this function, OpenSSL would ask for the password of a key on the terminal.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  KeyPtr key(PEM_read_bio_PrivateKey(in.get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  return key;
}

std::string ToPem(X509& certificate) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(out.get(), &certificate);
  return TextOf(*out);
}

std::string ToPem(EVP_PKEY& key) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(out.get(), &key, nullptr, nullptr, 0, nullptr, nullptr);
  return TextOf(*out);
}

std::string TextOf(const X509_NAME* name) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  return TextOf(*out);
}

std::string SubjectOf(X509& certificate) { return TextOf(X509_get_subject_name(&certificate)); }

std::string IssuerOf(X509& certificate) { return TextOf(X509_get_issuer_name(&certificate)); }

std::string CommonNameOf(X509& certificate) {
  const X509_NAME* const name = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return {};
  return Utf8Of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
}

std::vector<std::string> DnsNamesOf(X509& certificate) {
  std::vector<std::string> names;
  const std::unique_ptr<GENERAL_NAMES, FreeWith<GENERAL_NAMES_free>> all(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; all != nullptr && i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_DNS) names.push_back(Utf8Of(name->d.dNSName));
  }
  return names;
}

std::int64_t BeginOf(X509& certificate) { return UnixSecondsOf(X509_get0_notBefore(&certificate)); }

std::int64_t EndOf(X509& certificate) { return UnixSecondsOf(X509_get0_notAfter(&certificate)); }

std::string UtcText(std::int64_t unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return std::string(text, size);
}

std::string TakeSslError() {
  char text[256] = "unknown error";
  if (const unsigned long error = ERR_get_error(); error != 0) {
    if (const char* const reason = ERR_reason_error_string(error)) {
      ERR_clear_error();
      return reason;
    }
    ERR_error_string_n(error, text, sizeof text);
  }
  ERR_clear_error();
  return text;
}

}  // namespace millrace
