#include "common/transport/grpc/tls_server_credentials.h"

#include <grpc/grpc_security.h>

#include <string>
#include <utility>

#include "common/system/mutex.h"

namespace millrace {
namespace {

/// What gRPC's core asks during handshakes and before calls. Its credentials own it.
struct TlsServer {
  TlsServer(std::shared_ptr<TlsFolder> files, std::shared_ptr<CallGate> calls)
      : folder(std::move(files)), gate(std::move(calls)) {}

  const std::shared_ptr<TlsFolder> folder;
  const std::shared_ptr<CallGate> gate;
  Mutex mutex;
  std::shared_ptr<const TlsFiles> given MILLRACE_GUARDED_BY(mutex);  // to gRPC, last
};

grpc_ssl_certificate_config_reload_status GiveCertificate(
    void* user, grpc_ssl_server_certificate_config** config) {
  auto& server = *static_cast<TlsServer*>(user);
  std::shared_ptr<const TlsFiles> files = server.folder->Current();
  MutexLock lock(server.mutex);
  if (files == server.given) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair{files->key.c_str(), files->certificate.c_str()};
  *config = grpc_ssl_server_certificate_config_create(files->ca.c_str(), &pair, 1);
  server.given = std::move(files);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

std::string_view ViewOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

Shown ShownBy(const grpc_auth_context* context) {
  Shown shown;
  const auto for_each = [&](const char* name, auto f) {
    auto values = grpc_auth_context_find_properties_by_name(context, name);
    while (const grpc_auth_property* value = grpc_auth_property_iterator_next(&values)) {
      f(std::string(value->value, value->value_length));
    }
  };
  for_each(GRPC_X509_PEM_CERT_PROPERTY_NAME, [&](const std::string&) { shown.certificate = true; });
  for_each(GRPC_X509_CN_PROPERTY_NAME, [&](std::string name) { shown.common_name = name; });
  for_each(GRPC_PEER_DNS_PROPERTY_NAME,
           [&](std::string name) { shown.dns_names.push_back(std::move(name)); });
  return shown;
}

/// Refuses calls before their messages are read.
void CheckCall(void* user, grpc_auth_context* context, const grpc_metadata* headers,
               std::size_t count, grpc_process_auth_metadata_done_cb done, void* done_user) {
  const auto& server = *static_cast<TlsServer*>(user);
  Shown shown = ShownBy(context);
  std::string method;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view key = ViewOf(headers[i].key);
    if (key == ":path") method = ViewOf(headers[i].value);
    if (key == "authorization") shown.token = BearerToken(ViewOf(headers[i].value));
  }
  const Result<Peer> peer = server.gate->Admit(method, shown, "");
  const Status status = peer.ok() ? OkStatus() : peer.status();
  done(done_user, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.code()),
       status.ok() ? nullptr : status.message().c_str());
}

void Destroy(void* user) { delete static_cast<TlsServer*>(user); }

class TlsServerCredentials final : public grpc::ServerCredentials {
 public:
  TlsServerCredentials(std::shared_ptr<TlsFolder> folder, bool tokens,
                       std::shared_ptr<CallGate> gate) {
    // gRPC's core keeps its credentials for as long as the server needs them, and then destroys
    // what they own with the function below.
    auto* const server = new TlsServer(std::move(folder), std::move(gate));
    auto* const options = grpc_ssl_server_credentials_create_options_using_config_fetcher(
        tokens ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
               : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
        &GiveCertificate, server);
    credentials_ = grpc_ssl_server_credentials_create_with_options(options);
    grpc_server_credentials_set_auth_metadata_processor(credentials_,
                                                        {&CheckCall, &Destroy, server});
  }
  ~TlsServerCredentials() override { grpc_server_credentials_release(credentials_); }

  /// Calls are checked by the gate alone.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeTlsServerCredentials(std::shared_ptr<TlsFolder> folder,
                                                                  bool tokens,
                                                                  std::shared_ptr<CallGate> gate) {
  return std::make_shared<TlsServerCredentials>(std::move(folder), tokens, std::move(gate));
}

}  // namespace millrace
