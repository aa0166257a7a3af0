#include "server/source/warm.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "common/system/mutex.h"
#include "common/system/parallel.h"
#include "server/files/file_io.h"
#include "server/files/mapped_file.h"

namespace millrace {
namespace {

constexpr std::uint64_t kWarmedPiece = 4 << 20;

class Warmer {
 public:
  Warmer(const std::filesystem::path& dir, const WarmOptions& options)
      : dir_(dir), options_(options) {}

  Result<WarmReport> Run(DatasetListing listing) {
    const auto began = std::chrono::steady_clock::now();
    {
      MutexLock lock(mutex_);
      bad_ = std::move(listing.bad);
    }
    for (std::size_t i = 0; i < listing.names.size(); ++i) {
      files_.push_back({listing.names[i], listing.identities[i].size});
    }
    for (const File& file : files_) report_.bytes += file.bytes;
    report_.files = files_.size();
    if (options_.begin) options_.begin(report_.bytes);
    ParallelFor(options_.threads, files_.size(), [this](std::size_t i) {
      if (options_.stop.stop_requested()) return;
      if (const Status status = WarmOne(files_[i]); !status.ok()) {
        MutexLock lock(mutex_);
        bad_.push_back({files_[i].name, status.message()});
      }
    });
    if (options_.stop.stop_requested()) return Cancelled("stopped before all files were read");
    for (const File& file : files_) {
      const Result<std::uint64_t> cached = CachedBytes(file);
      if (cached.ok()) report_.cached_after += *cached;
    }
    report_.cached_before = before_;
    report_.read = read_;
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    MutexLock lock(mutex_);
    if (!bad_.empty()) return BadFilesStatus("dataset " + dir_.string(), bad_);
    return report_;
  }

 private:
  struct File {
    std::string name;
    std::uint64_t bytes;
  };

  Result<std::uint64_t> CachedBytes(const File& file) const {
    MILLRACE_ASSIGN_OR_RETURN(const MappedFile mapped,
                              MappedFile::Open(dir_ / file.name, AccessPattern::kRandom));
    return mapped.CachedBytes();
  }

  Status WarmOne(const File& file) {
    MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t cached, CachedBytes(file));
    before_ += cached;
    if (cached >= file.bytes) {
      if (options_.progress) options_.progress(file.bytes);
      return OkStatus();
    }
    MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenFile(dir_ / file.name, O_RDONLY));
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
    std::vector<std::byte> buffer(std::min(kWarmedPiece, file.bytes));
    for (std::uint64_t at = 0; at < file.bytes && !options_.stop.stop_requested();) {
      const auto piece = std::span(buffer).first(std::min(kWarmedPiece, file.bytes - at));
      MILLRACE_RETURN_IF_ERROR(ReadAt(fd, piece, at));
      at += piece.size();
      read_ += piece.size();
      if (options_.progress) options_.progress(piece.size());
    }
    return OkStatus();
  }

  const std::filesystem::path& dir_;
  const WarmOptions& options_;
  std::vector<File> files_;
  WarmReport report_;
  std::atomic<std::uint64_t> before_{0};
  std::atomic<std::uint64_t> read_{0};
  Mutex mutex_;
  std::vector<BadFile> bad_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace

Result<WarmReport> WarmFiles(const std::filesystem::path& dir, DatasetListing listing,
                             const WarmOptions& options) {
  return Warmer(dir, options).Run(std::move(listing));
}

}  // namespace millrace
