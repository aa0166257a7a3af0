// TLS for a client of gRPC.
#pragma once

#include <memory>

#include <grpcpp/grpcpp.h>

#include "common/security/tls_files.h"

namespace millrace {

/// Credentials of a connection that proves what `files` contain; without TLS if it is null.
inline std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const TlsFiles* files) {
  if (files == nullptr) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = files->ca;
  options.pem_private_key = files->key;
  options.pem_cert_chain = files->certificate;
  return grpc::SslCredentials(options);
}

}  // namespace millrace
