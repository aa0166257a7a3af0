#include "server/files/index_place.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/system/errno_status.h"
#include "common/system/stop_wait.h"
#include "server/files/cache_dir.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLockPatience(50);
constexpr std::uint64_t kAsksBetweenWords = 1200;  // one minute

/// The folder of a dataset in the cache; empty if there is none.
fs::path CachedPlace(const fs::path& dir, const fs::path& cache_dir) {
  const fs::path cache = cache_dir.empty() ? DefaultCacheDir() : cache_dir;
  std::error_code error;
  const fs::path real = fs::canonical(dir, error);
  return cache.empty() || error ? fs::path() : cache / Xxh3(real.string()).ToHex();
}

Status LockFile(const FileDescriptor& file, const fs::path& dir, const fs::path& place,
                const std::stop_token& stop, Logger& logger) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return OkStatus();
  if (errno != EWOULDBLOCK) return ErrnoStatus(place.string() + ".lock", errno);
  logger.Info("waiting for another process that builds the index",
              {{"dataset", dir.string()}, {"index", place.string()}});
  // The lock is polled, because a wait in the kernel could not be interrupted.
  for (std::uint64_t asked = 1; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0; ++asked) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return ErrnoStatus(place.string() + ".lock", errno);
    }
    MILLRACE_RETURN_IF_ERROR(CheckIndexStop(stop).WithContext("dataset " + dir.string()));
    WaitUnlessStopped(stop, kLockPatience);
    if (asked % kAsksBetweenWords == 0) {
      logger.Warning(
          "still waiting for another process that builds the index",
          {{"lock", place.string() + ".lock"}, {"waited_s", ToSeconds(asked * kLockPatience)}});
    }
  }
  return OkStatus();
}

}  // namespace

std::vector<fs::path> IndexPlaces(const fs::path& dir, const fs::path& index_file,
                                  const fs::path& cache_dir) {
  if (!index_file.empty()) return {index_file};
  std::vector<fs::path> places = {dir / kIndexFileName};
  const fs::path cached = CachedPlace(dir, cache_dir);
  if (!cached.empty()) places.push_back(cached / "index");
  return places;
}

std::vector<fs::path> ColumnFolders(const fs::path& dir, const fs::path& index_file,
                                    const fs::path& cache_dir) {
  if (!index_file.empty()) {
    fs::path beside = index_file;
    return {beside += ".columns"};
  }
  std::vector<fs::path> folders = {dir / ".millrace.columns"};
  const fs::path cached = CachedPlace(dir, cache_dir);
  if (!cached.empty()) folders.push_back(cached / "columns");
  return folders;
}

Status CheckReplaceableIndex(const fs::path& file, std::string_view magic) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) return OkStatus();
  if (fs::is_regular_file(status)) {
    std::string begin(magic.size(), '\0');
    std::ifstream in(file, std::ios::binary);
    if (!in.is_open()) {
      return ErrnoStatus(file.string() + " cannot be read (an index is for the user who made it)",
                         errno);
    }
    in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
    const bool empty = in.gcount() == 0;
    if (empty || begin == magic) return OkStatus();
  }
  return InvalidArgument(file.string() +
                         ": is no index, and is not overwritten; remove it or name another file");
}

Status CheckIndexStop(const std::stop_token& stop) {
  if (!stop.stop_requested()) return OkStatus();
  return Cancelled("stopped before it was done; an index that was there stays as it was");
}

Result<LockedIndexPlace> LockIndexPlace(const fs::path& dir, std::span<const fs::path> places,
                                        const std::stop_token& stop, Logger& logger) {
  Status status = NotFound("no place for the index");
  for (std::size_t i = 0; i < places.size(); ++i) {
    const fs::path& place = places[i];
    std::error_code error;
    if (i > 0) fs::create_directories(place.parent_path(), error);
    if (error) {
      status =
          ErrnoStatus("folder " + place.parent_path().string() + " cannot be made", error.value());
      continue;
    }
    Result<FileDescriptor> file = OpenFile(place.string() + ".lock", O_RDWR | O_CREAT | O_NOFOLLOW);
    if (!file.ok()) {
      status = file.status();
      // If the folder cannot be written, the cache is tried; if it is full, the error is returned.
      if (status.code() == StatusCode::kPermissionDenied) continue;
      return status;
    }
    MILLRACE_RETURN_IF_ERROR(LockFile(*file, dir, place, stop, logger));
    return LockedIndexPlace{place, *std::move(file)};
  }
  return Status(status.code(), status.message() + "; name another place for the index");
}

}  // namespace millrace
