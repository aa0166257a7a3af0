// File operations that fail when a test says so, and a logger that counts.
#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/system/errno_status.h"
#include "server/plan/cache/cache_files.h"
#include "server/plan/cache/disk_cache.h"
#include "tests/support/fake_clock.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::test {

/// An errno for each operation, 0 for none. Set them while nobody uses the files, or atomically.
class FaultyFiles final : public SystemCacheFiles {
 public:
  std::atomic<int> make_folder{0}, list{0}, create{0}, open{0}, read{0}, write{0}, rename{0},
      remove{0}, set_modified{0};
  /// A failing write first writes this many of its bytes.
  std::atomic<std::size_t> written_before{0};
  /// A write says that it has succeeded, whatever it has done.
  std::atomic<bool> lies{false};
  std::atomic<std::uint64_t> calls{0};
  /// Called before each write, if set. Set it while nobody uses the files.
  std::function<void(std::uint64_t offset)> before_write;

  Status MakeFolder(const std::filesystem::path& folder) override {
    return Fails(make_folder) ? Error(make_folder) : SystemCacheFiles::MakeFolder(folder);
  }
  Result<std::vector<Found>> List(const std::filesystem::path& folder) override {
    if (Fails(list)) return Error(list);
    return SystemCacheFiles::List(folder);
  }
  Result<FileDescriptor> Create(const std::filesystem::path& path) override {
    if (Fails(create)) return Error(create);
    return SystemCacheFiles::Create(path);
  }
  Result<FileDescriptor> Open(const std::filesystem::path& path) override {
    if (Fails(open)) return Error(open);
    return SystemCacheFiles::Open(path);
  }
  Status Read(const FileDescriptor& file, std::span<std::byte> bytes,
              std::uint64_t offset) override {
    return Fails(read) ? Error(read) : SystemCacheFiles::Read(file, bytes, offset);
  }
  Status Write(const FileDescriptor& file, std::span<const std::byte> bytes,
               std::uint64_t offset) override {
    if (before_write) before_write(offset);
    if (!Fails(write)) return SystemCacheFiles::Write(file, bytes, offset);
    const std::size_t kept = std::min(written_before.load(), bytes.size());
    static_cast<void>(SystemCacheFiles::Write(file, bytes.first(kept), offset));
    return lies ? OkStatus() : Error(write);
  }
  Status Rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return Fails(rename) ? Error(rename) : SystemCacheFiles::Rename(from, to);
  }
  Status Remove(const std::filesystem::path& path) override {
    return Fails(remove) ? Error(remove) : SystemCacheFiles::Remove(path);
  }
  Status SetModified(const std::filesystem::path& path, std::int64_t modified_ns) override {
    return Fails(set_modified) ? Error(set_modified)
                               : SystemCacheFiles::SetModified(path, modified_ns);
  }

 private:
  bool Fails(const std::atomic<int>& fault) {
    ++calls;
    return fault != 0;
  }
  static Status Error(int error) { return ErrnoStatus("a fault of the test", error); }
};

class CountingLogger final : public Logger {
 public:
  void Log(LogLevel level, std::string_view, std::initializer_list<LogField>) override {
    if (level >= LogLevel::kWarning) ++warnings;
  }
  std::atomic<int> warnings{0};
};

/// A folder, and caches over it. Each cache stands for a process.
struct CacheWorld {
  TemporaryFolder temporary;
  std::filesystem::path folder = temporary.path() / "cache";
  std::shared_ptr<FaultyFiles> files = std::make_shared<FaultyFiles>();
  // Ahead of the system's clock, so that times which the kernel sets are earlier than ours.
  std::shared_ptr<FakeClock> clock =
      std::make_shared<FakeClock>(SystemClock().UnixSeconds() + 3600);
  std::shared_ptr<CountingLogger> logger = std::make_shared<CountingLogger>();
  DiskCacheOptions options = {.folder = folder, .limit_bytes = 1 << 20, .segment_bytes = 64 << 10};

  std::unique_ptr<DiskCache> Start() const {
    auto cache = std::make_unique<DiskCache>(options, files, clock, logger);
    cache->Scan();
    return cache;
  }
  /// Segments, the longest name last.
  std::vector<std::filesystem::path> Segments() const {
    std::vector<std::filesystem::path> paths;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".examples") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  std::uint64_t BytesOnDisk() const {
    std::uint64_t bytes = 0;
    for (const auto& path : Segments()) bytes += std::filesystem::file_size(path);
    return bytes;
  }
};

}  // namespace millrace::test
