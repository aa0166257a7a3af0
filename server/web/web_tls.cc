#include "server/web/web_tls.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <string_view>
#include <utility>
#include <vector>

#include "common/security/x509.h"
#include "common/transport/grpc/call_gate.h"

namespace millrace {
namespace {

using StorePtr = std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>>;

/// Bytes of base64; empty if `text` is none.
std::string FromBase64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return {};
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return {};
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

}  // namespace

WebTls::WebTls(std::shared_ptr<TlsFolder> folder, SSL_CTX* context)
    : folder_(std::move(folder)), context_(context) {}

WebTls::~WebTls() { SSL_CTX_free(context_); }

Result<std::unique_ptr<WebTls>> WebTls::Make(std::shared_ptr<TlsFolder> folder) {
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return Internal("cannot prepare TLS: " + TakeSslError());
  std::unique_ptr<WebTls> tls(new WebTls(std::move(folder), context));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  // Every handshake asks anew who the peer is.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_cert_cb(context, &WebTls::GiveFiles, tls.get());
  return tls;
}

int WebTls::GiveFiles(SSL* connection, void* self) {
  const std::shared_ptr<const TlsFiles> files = static_cast<WebTls*>(self)->folder_->Current();
  const std::vector<X509Ptr> own = ParseCertificates(files->certificate);
  const std::vector<X509Ptr> trusted = ParseCertificates(files->ca);
  const KeyPtr key = ParseKey(files->key);
  const StorePtr store(X509_STORE_new());
  if (own.empty() || key == nullptr || store == nullptr) return 0;
  SSL_certs_clear(connection);
  if (SSL_use_certificate(connection, own.front().get()) != 1) return 0;
  for (std::size_t i = 1; i < own.size(); ++i) {
    if (SSL_add1_chain_cert(connection, own[i].get()) != 1) return 0;
  }
  if (SSL_use_PrivateKey(connection, key.get()) != 1) return 0;
  for (const X509Ptr& ca : trusted) {
    if (X509_STORE_add_cert(store.get(), ca.get()) != 1) return 0;
    // Browsers offer their users the certificates of these.
    if (SSL_add_client_CA(connection, ca.get()) != 1) return 0;
  }
  return SSL_set1_verify_cert_store(connection, store.get()) == 1 ? 1 : 0;
}

Shown ShownByCertificate(X509* certificate) {
  Shown shown;
  if (certificate == nullptr) return shown;
  shown.certificate = true;
  shown.common_name = CommonNameOf(*certificate);
  shown.dns_names = DnsNamesOf(*certificate);
  return shown;
}

std::string TokenOf(const std::string& authorization) {
  constexpr std::string_view kBasic = "Basic ";
  if (!authorization.starts_with(kBasic)) return BearerToken(authorization);
  const std::string pair = FromBase64(std::string_view(authorization).substr(kBasic.size()));
  const std::size_t colon = pair.find(':');
  return colon == std::string::npos ? std::string() : pair.substr(colon + 1);
}

}  // namespace millrace
