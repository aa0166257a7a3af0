#include "common/security/tls_folder.h"

#include <cstdlib>
#include <utility>

#include "common/security/file_snapshot.h"
#include "common/security/x509.h"

namespace millrace {
namespace {

constexpr Duration kFolderLookPeriod = std::chrono::seconds(1);

}  // namespace

TlsFolder::TlsFolder(TlsFolderOptions options, std::shared_ptr<const Clock> clock,
                     std::shared_ptr<Logger> log)
    : options_(std::move(options)), clock_(std::move(clock)), log_(std::move(log)) {}

Result<std::shared_ptr<TlsFolder>> TlsFolder::Open(const TlsFolderOptions& options,
                                                   std::shared_ptr<const Clock> clock,
                                                   std::shared_ptr<Logger> log) {
  const std::shared_ptr<TlsFolder> folder(new TlsFolder(options, std::move(clock), std::move(log)));
  MutexLock lock(folder->mutex_);
  // Looked at first: what changes between the two is read again.
  folder->look_ = folder->SnapshotFiles();
  MILLRACE_ASSIGN_OR_RETURN(
      TlsFiles files,
      ReadTlsFiles(options.folder, options.roles, options.proof, folder->clock_->UnixSeconds()));
  folder->files_ = std::make_shared<const TlsFiles>(std::move(files));
  folder->looked_at_ = folder->clock_->Now();
  return folder;
}

std::shared_ptr<const TlsFiles> TlsFolder::Current() {
  MutexLock lock(mutex_);
  if (clock_->Now() - looked_at_ >= kFolderLookPeriod) LookAgain();
  return files_;
}

std::string TlsFolder::SnapshotFiles() const {
  std::string look;
  for (const char* const file : {"ca.crt", "tls.crt", "tls.key", "token"}) {
    look += FileSnapshot(options_.folder + "/" + file) + " ";
  }
  return look;
}

Result<std::shared_ptr<TlsFolder>> OpenClientTls(const std::string& folder,
                                                 std::shared_ptr<const Clock> clock,
                                                 std::shared_ptr<Logger> log) {
  const char* const variable = std::getenv("MILLRACE_TLS");
  const std::string path = !folder.empty() || variable == nullptr ? folder : variable;
  if (path.empty()) return std::shared_ptr<TlsFolder>();
  return TlsFolder::Open({.folder = path, .proof = TlsProof::kCertificateOrToken}, std::move(clock),
                         std::move(log));
}

void TlsFolder::LookAgain() {
  looked_at_ = clock_->Now();
  std::string look = SnapshotFiles();
  if (look == look_) {
    refused_ = OkStatus();
    return;
  }
  Result<TlsFiles> files =
      ReadTlsFiles(options_.folder, options_.roles, options_.proof, clock_->UnixSeconds());
  if (!files.ok()) {
    if (std::exchange(refused_, files.status()) != files.status()) {
      log_->Error("certificates not read again; those before stay in force",
                  {{"folder", options_.folder}, {"why", files.status()}});
    }
    return;
  }
  refused_ = OkStatus();
  look_ = std::move(look);
  log_->Info(
      "certificates read again",
      {{"folder", options_.folder}, {"name", files->name}, {"valid_until", UtcText(files->ends)}});
  files_ = std::make_shared<const TlsFiles>(*std::move(files));
}

}  // namespace millrace
