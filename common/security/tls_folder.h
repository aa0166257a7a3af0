// The current files of a TLS folder. They are read again when they change, because certificates are
// renewed while processes run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/security/tls_files.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"

namespace millrace {

struct TlsFolderOptions {
  std::string folder;
  PeerRoles roles;  // that the certificate must have
  TlsProof proof = TlsProof::kCertificate;
};

/// Thread-safe.
class TlsFolder {
 public:
  /// Reads the files. Errors as for ReadTlsFiles.
  static Result<std::shared_ptr<TlsFolder>> Open(const TlsFolderOptions& options,
                                                 std::shared_ptr<const Clock> clock,
                                                 std::shared_ptr<Logger> log);

  /// The newest files that fit. Checks at most once per second whether they have changed. If the
  /// present ones do not fit, the earlier ones stay in force, and the log says why.
  std::shared_ptr<const TlsFiles> Current();

  const std::string& path() const { return options_.folder; }

 private:
  TlsFolder(TlsFolderOptions options, std::shared_ptr<const Clock> clock,
            std::shared_ptr<Logger> log);
  /// Detects changes of files: the FileSnapshot of each.
  std::string SnapshotFiles() const;
  void LookAgain() MILLRACE_REQUIRES(mutex_);

  const TlsFolderOptions options_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<Logger> log_;
  Mutex mutex_;
  std::shared_ptr<const TlsFiles> files_ MILLRACE_GUARDED_BY(mutex_);
  std::string look_ MILLRACE_GUARDED_BY(mutex_);  // of the files in force
  Time looked_at_ MILLRACE_GUARDED_BY(mutex_);
  Status refused_ MILLRACE_GUARDED_BY(mutex_);  // why the present files are not in force
};

/// The folder of a trainer or a tool: `folder`, or if it is empty, the folder in the environment
/// variable MILLRACE_TLS. Null if there is no folder: no TLS.
Result<std::shared_ptr<TlsFolder>> OpenClientTls(const std::string& folder,
                                                 std::shared_ptr<const Clock> clock,
                                                 std::shared_ptr<Logger> log);

}  // namespace millrace
