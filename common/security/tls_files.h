// The files by which a process proves its identity: ca.crt, tls.crt and tls.key in one folder (the
// names that cert-manager writes). A trainer or a tool may have `token` instead of the last two.
//
// Values and free functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "common/access/role.h"
#include "common/base/result.h"

namespace millrace {

/// The contents of a folder. Its files were found to belong together.
struct TlsFiles {
  std::string ca;           // PEM, one certificate or more
  std::string certificate;  // PEM, with intermediate ones behind it; empty: there is a token
  std::string key;          // PEM
  std::string token;        // empty: no token
  std::string name;         // of the certificate's subject; empty: there is no certificate
  PeerRoles roles;
  std::int64_t ends = 0;  // unix seconds at which the first of the certificates ends
};

/// The proof that a folder needs beside ca.crt.
enum class TlsProof : std::uint8_t {
  kCertificate,         // tls.crt and tls.key
  kCertificateOrToken,  // tls.crt and tls.key, or token
  kNone,                // no file: the other end takes another proof too
};

/// Reads the files of `folder` and checks them at `unix_seconds`: tls.key is the key of tls.crt,
/// ca.crt signed it, both are valid now, and it has all of `roles`. NotFound for a file that is
/// missing, PermissionDenied for one that may not be read, InvalidArgument for one that is no PEM,
/// FailedPrecondition if they do not fit.
Result<TlsFiles> ReadTlsFiles(const std::string& folder, PeerRoles roles, TlsProof proof,
                              std::int64_t unix_seconds);

}  // namespace millrace
