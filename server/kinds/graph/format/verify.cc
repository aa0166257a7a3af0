#include "server/kinds/graph/format/verify.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/system/mutex.h"
#include "common/system/parallel.h"
#include "server/files/mapped_file.h"

namespace millrace {
namespace {

constexpr std::size_t kHashedPiece = std::size_t{1} << 20;

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// One run over all files. Its functions run on several threads.
class Run {
 public:
  Run(const GraphDataset& dataset, const VerifyGraphOptions& options)
      : dataset_(dataset), options_(options) {}

  Status Start(std::vector<BadFile>* bad) {
    const std::vector<WatchedFile>& files = dataset_.files().files();
    ParallelFor(options_.threads, files.size(), [&](std::size_t f) {
      if (options_.stop.stop_requested()) return;
      const std::span<std::byte> copy =
          options_.copies.empty() ? std::span<std::byte>() : options_.copies[f];
      Status status = Check(files[f], copy);
      if (status.ok() || status.code() == StatusCode::kCancelled) return;
      MutexLock lock(mutex_);
      bad_.push_back({files[f].name, status.message()});
    });
    const std::string where = "dataset " + dataset_.dir().string();
    if (options_.stop.stop_requested())
      return Cancelled(where + ": stopped before it was verified");
    MutexLock lock(mutex_);
    if (bad != nullptr) *bad = bad_;
    if (bad_.empty()) return OkStatus();
    return BadFilesStatus(where + " differs from its graph.json", bad_);
  }

 private:
  Status Check(const WatchedFile& watched, std::span<std::byte> copy) {
    MILLRACE_ASSIGN_OR_RETURN(const MappedFile file,
                              MappedFile::Open(watched.file.path(), AccessPattern::kSequential));
    const bool to_copy = !copy.empty();
    if (!to_copy && Trusted(watched, file)) {
      Report(file.bytes().size());
      return OkStatus();
    }
    if (file.bytes().size() != watched.file.bytes().size()) {
      return DataLoss(fmt::format("has {} bytes, expected {}", file.bytes().size(),
                                  watched.file.bytes().size()));
    }
    Xxh3Stream hash;
    for (std::span<const std::byte> rest = file.bytes(); !rest.empty();) {
      if (options_.stop.stop_requested()) return Cancelled("stopped");
      std::span<const std::byte> piece = rest.first(std::min(kHashedPiece, rest.size()));
      rest = rest.subspan(piece.size());
      if (!copy.empty()) {
        std::copy(piece.begin(), piece.end(), copy.begin());
        piece = copy.first(piece.size());
        copy = copy.subspan(piece.size());
      }
      hash.Update(piece);
      Report(piece.size());
    }
    MILLRACE_RETURN_IF_ERROR(file.CheckIntact());
    const Digest128 digest = hash.Finish();
    if (digest != watched.digest) {
      return DataLoss(
          fmt::format("has digest {}, expected {}", digest.ToHex(), watched.digest.ToHex()));
    }
    if (file.Changed()) {
      return to_copy ? OkStatus() : DataLoss("was changed while it was verified");
    }
    MutexLock lock(mutex_);
    if (options_.verified != nullptr) {
      options_.verified->Add(watched.digest, file.identity(), NowNs());
    }
    return OkStatus();
  }

  bool Trusted(const WatchedFile& watched, const MappedFile& file) {
    MutexLock lock(mutex_);
    return options_.trust_verified && options_.verified != nullptr &&
           options_.verified->Has(watched.digest, file.identity());
  }

  void Report(std::uint64_t bytes) {
    if (!options_.progress) return;
    MutexLock lock(mutex_);
    options_.progress(bytes);
  }

  const GraphDataset& dataset_;
  const VerifyGraphOptions& options_;
  Mutex mutex_;  // held for reports, and for what is remembered
  std::vector<BadFile> bad_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace

std::uint64_t GraphBytes(const GraphDataset& dataset) {
  std::uint64_t bytes = 0;
  for (const WatchedFile& file : dataset.files().files()) bytes += file.file.bytes().size();
  return bytes;
}

Status VerifyGraph(const GraphDataset& dataset, const VerifyGraphOptions& options,
                   std::vector<BadFile>* bad) {
  return Run(dataset, options).Start(bad);
}

}  // namespace millrace
