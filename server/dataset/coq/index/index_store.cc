#include "server/dataset/coq/index/index_store.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/system/errno_status.h"
#include "common/system/stop_wait.h"
#include "server/dataset/cache_dir.h"
#include "server/dataset/coq/index/index_format.h"
#include "server/dataset/coq/index/index_freshness.h"
#include "server/dataset/coq/index/left_out.h"
#include "server/files/file_io.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using IndexPtr = std::shared_ptr<const DatasetIndex>;

constexpr std::chrono::milliseconds kLockPatience(50);
constexpr std::uint64_t kAsksBetweenWords = 1200;  // one minute

// The places where the index may lie, the best one first.
std::vector<fs::path> Places(const fs::path& dir, const IndexOptions& options) {
  if (!options.index_file.empty()) return {options.index_file};
  std::vector<fs::path> places = {dir / kIndexFileName};
  const fs::path cache = options.cache_dir.empty() ? DefaultCacheDir() : options.cache_dir;
  std::error_code error;
  const fs::path real = fs::canonical(dir, error);
  if (!cache.empty() && !error) {
    places.push_back(cache / Xxh3(real.string()).ToHex() / "index");
  }
  return places;
}

// Refuses to overwrite a file that is not an index: a mistyped name must not destroy a file. Also
// refuses names of dataset files.
Status CheckReplaceable(const fs::path& file) {
  if (file.extension() == ".bin") {
    return InvalidArgument(file.string() +
                           ": *.bin files are a dataset's own; name another file for the index");
  }
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) return OkStatus();
  if (fs::is_regular_file(status)) {
    char magic[sizeof(kIndexMagic)] = {};
    std::ifstream in(file, std::ios::binary);
    in.read(magic, sizeof(magic));
    const bool empty = in.is_open() && in.gcount() == 0;
    if (empty || std::memcmp(magic, kIndexMagic, sizeof(magic)) == 0) return OkStatus();
  }
  return InvalidArgument(file.string() +
                         ": is no index, and is not overwritten; remove it or name another file");
}

class Store {
 public:
  Store(const fs::path& dir, const IndexOptions& options)
      : dir_(dir),
        options_(options),
        logger_(options.logger != nullptr ? options.logger : MakeNullLogger()),
        places_(Places(dir, options)) {}

  Result<IndexPtr> Run(IndexOutcome& outcome) {
    if (!options_.index_file.empty()) {
      MILLRACE_RETURN_IF_ERROR(CheckReplaceable(options_.index_file));
    }
    MILLRACE_ASSIGN_OR_RETURN(listing_, ListDataset(dir_));
    if (!options_.force) {
      if (IndexPtr index = FindFitting(outcome)) return index;
    }
    MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor lock, LockPlace(outcome.file));
    if (!options_.force) {
      // Another process may have built the index while it held the lock.
      MILLRACE_ASSIGN_OR_RETURN(listing_, ListDataset(dir_));
      if (IndexPtr index = FindFitting(outcome)) return index;
      if (IndexPtr index = Renew(outcome.file)) return index;
    }
    return Build(outcome);
  }

 private:
  // Finds an index that fits as it is. Otherwise remembers one that may fit once touched files are
  // hashed, and why others do not fit.
  IndexPtr FindFitting(IndexOutcome& outcome) {
    why_ = "there is none";
    renewable_.reset();
    older_.reset();
    for (const fs::path& place : places_) {
      Result<IndexPtr> index = DatasetIndex::Open(place);
      if (!index.ok()) {
        if (index.status().code() != StatusCode::kNotFound) why_ = index.status().message();
        continue;
      }
      IndexFreshness freshness = CompareWithListing(**index, listing_);
      if (freshness.stale.empty()) {
        freshness.stale = WhyLeftOutIsStale(dir_, **index, listing_, options_.build.skip_bad);
      }
      if (freshness.fits()) {
        outcome.file = place;
        return *index;
      }
      if (!older_) older_ = *index;
      if (!freshness.stale.empty()) {
        why_ = freshness.stale;
      } else if (!renewable_) {
        renewable_ = Renewable{*index, place, std::move(freshness.touched)};
      }
    }
    return nullptr;
  }

  // Takes the lock of the first place that can be written, and stores that place in `place`.
  Result<FileDescriptor> LockPlace(fs::path& place) {
    Status status = NotFound("no place for the index");
    for (std::size_t i = 0; i < places_.size(); ++i) {
      place = places_[i];
      std::error_code error;
      if (i > 0) fs::create_directories(place.parent_path(), error);
      if (error) {
        status = ErrnoStatus("folder " + place.parent_path().string() + " cannot be made",
                             error.value());
        continue;
      }
      Result<FileDescriptor> file =
          OpenFile(place.string() + ".lock", O_RDWR | O_CREAT | O_NOFOLLOW);
      if (!file.ok()) {
        status = file.status();
        // If the folder cannot be written, the cache is tried; if it is full, the error is
        // returned.
        if (status.code() == StatusCode::kPermissionDenied) continue;
        return status;
      }
      MILLRACE_RETURN_IF_ERROR(Lock(*file, place));
      return file;
    }
    return Status(status.code(), status.message() + "; name another place for the index");
  }

  Status Lock(const FileDescriptor& file, const fs::path& place) {
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return OkStatus();
    if (errno != EWOULDBLOCK) return ErrnoStatus(place.string() + ".lock", errno);
    logger_->Info("waiting for another process that builds the index",
                  {{"dataset", dir_.string()}, {"index", place.string()}});
    // The lock is polled, because a wait in the kernel could not be interrupted.
    for (std::uint64_t asked = 1; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0; ++asked) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return ErrnoStatus(place.string() + ".lock", errno);
      }
      MILLRACE_RETURN_IF_ERROR(CheckStop(options_.build).WithContext("dataset " + dir_.string()));
      WaitUnlessStopped(options_.build.stop, kLockPatience);
      if (asked % kAsksBetweenWords == 0) {
        logger_->Warning(
            "still waiting for another process that builds the index",
            {{"lock", place.string() + ".lock"}, {"waited_s", ToSeconds(asked * kLockPatience)}});
      }
    }
    return OkStatus();
  }

  // Hashes the touched files, and writes the present inodes and times into the index. nullptr if
  // contents differ.
  IndexPtr Renew(const fs::path& place) {
    if (!renewable_) return nullptr;
    why_ = HashTouched(dir_, *renewable_->index, renewable_->touched, options_.build);
    if (!why_.empty()) return nullptr;
    const Status status = RenewIndex(*renewable_->index, renewable_->file, place, listing_);
    if (!status.ok()) {
      why_ = status.message();
      return nullptr;
    }
    logger_->Info("index renewed: inodes or times of files changed, their contents did not",
                  {{"dataset", dir_.string()},
                   {"index", place.string()},
                   {"hashed_files", renewable_->touched.size()}});
    Result<IndexPtr> index = DatasetIndex::Open(place);
    return index.ok() ? *index : nullptr;
  }

  Result<IndexPtr> Build(IndexOutcome& outcome) {
    std::unique_lock<std::mutex> only;
    if (options_.one_build != nullptr) only = std::unique_lock(*options_.one_build);
    MILLRACE_RETURN_IF_ERROR(CheckStop(options_.build).WithContext("dataset " + dir_.string()));
    logger_->Info("building the index",
                  {{"dataset", dir_.string()},
                   {"index", outcome.file.string()},
                   {"why", options_.force ? std::string("asked for") : why_}});
    BuildOptions build = options_.build;
    // Records of a damaged index are not taken over.
    if (older_ && older_->Verify().ok()) build.older = std::move(older_);
    MILLRACE_ASSIGN_OR_RETURN(outcome.report, BuildIndex(dir_, outcome.file, build, options_.bad));
    outcome.built = true;
    logger_->Info("index built", {{"dataset", dir_.string()},
                                  {"files", outcome.report.files},
                                  {"unchanged_files", outcome.report.unchanged_files},
                                  {"nodes", outcome.report.nodes},
                                  {"proof_states", outcome.report.proof_states},
                                  {"index_bytes", outcome.report.index_bytes},
                                  {"seconds", outcome.report.seconds}});
    Result<IndexPtr> index = DatasetIndex::Open(outcome.file);
    if (!index.ok()) return index;
    for (const LeftOutRecord& file : (*index)->left_out()) {
      logger_->Warning("file left out", {{"dataset", dir_.string()},
                                         {"file", Escaped((*index)->left_out_name(file))},
                                         {"why", (*index)->left_out_reason(file)}});
    }
    return index;
  }

  struct Renewable {
    IndexPtr index;
    fs::path file;
    std::vector<std::uint32_t> touched;
  };

  const fs::path& dir_;
  const IndexOptions& options_;
  const std::shared_ptr<Logger> logger_;
  const std::vector<fs::path> places_;
  DatasetListing listing_;
  std::string why_;  // why no index fits
  IndexPtr older_;   // an index that does not fit
  std::optional<Renewable> renewable_;
};

}  // namespace

Result<IndexPtr> OpenOrBuildIndex(const fs::path& dir, const IndexOptions& options,
                                  IndexOutcome* outcome) {
  IndexOutcome unasked;
  return Store(dir, options).Run(outcome != nullptr ? *outcome : unasked);
}

Result<IndexPtr> FindIndex(const fs::path& dir, const IndexOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const DatasetListing listing, ListDataset(dir));
  Status status = OkStatus();
  IndexPtr first;
  for (const fs::path& place : Places(dir, options)) {
    Result<IndexPtr> index = DatasetIndex::Open(place);
    if (index.ok()) {
      // If the folder can no longer be written, it may have an outdated index while the cache has
      // the new one.
      if (CompareWithListing(**index, listing).stale.empty()) return index;
      if (first == nullptr) first = *index;
    } else if (status.ok() || status.code() == StatusCode::kNotFound) {
      status = index.status();
    }
  }
  if (first != nullptr) return first;
  if (status.code() != StatusCode::kNotFound) return status;
  return NotFound(fmt::format("dataset {} has no index; build it with `millrace index {}`",
                              dir.string(), dir.string()));
}

}  // namespace millrace
