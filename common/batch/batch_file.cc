#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/batch/batch.h"
#include "common/system/errno_status.h"
#include "common/system/file_descriptor.h"

namespace millrace {
namespace {

// The trailer after the batch: magic, version, a zero, and the batch's digest. The length of a
// batch is a multiple of 64, so the length of a file says whether it has a trailer.
constexpr std::string_view kMagic = "MILLFILE";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kDigestAt = 16;
constexpr std::size_t kTrailerBytes = 32;

std::string Trailer(const Digest128& digest) {
  std::string trailer(kMagic);
  trailer.append({static_cast<char>(kVersion), 0, 0, 0, 0, 0, 0, 0});
  return trailer + digest.ToBytes();
}

/// Checks the bytes of a batch against the trailer `behind` them.
Status CheckTrailer(std::span<const std::byte> batch, std::span<const std::byte> behind) {
  const std::string_view trailer(reinterpret_cast<const char*>(behind.data()), behind.size());
  const std::string expected = Trailer(Xxh3(batch));
  if (trailer.substr(0, kMagic.size()) != kMagic) {
    return DataLoss("expected the mark of a saved batch in its last 32 bytes, and found none");
  }
  if (trailer.substr(0, kDigestAt) != expected.substr(0, kDigestAt)) {
    std::uint32_t version = 0;
    std::memcpy(&version, trailer.data() + kMagic.size(), sizeof version);
    return Unimplemented(
        fmt::format("a saved batch of version {}: expected {}; read it with the program that "
                    "saved it",
                    version, kVersion));
  }
  if (trailer != expected) {
    MILLRACE_ASSIGN_OR_RETURN(const Digest128 saved,
                              Digest128::FromBytes(trailer.substr(kDigestAt)));
    return DataLoss(
        fmt::format("the batch has changed since it was saved: expected digest {}, got {}; save "
                    "it again",
                    saved.ToHex(), Xxh3(batch).ToHex()));
  }
  return OkStatus();
}

Status WriteAll(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("cannot write " + path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return OkStatus();
}

Status ReadAll(int fd, std::span<std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::read(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("cannot read " + path, errno);
    if (n == 0) return DataLoss(fmt::format("{} became shorter while it was read", path));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return OkStatus();
}

Status WriteSynced(const std::string& path, std::span<const std::byte> bytes,
                   std::string_view behind) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) return ErrnoStatus("cannot create " + path, errno);
  MILLRACE_RETURN_IF_ERROR(WriteAll(file.get(), bytes, path));
  MILLRACE_RETURN_IF_ERROR(
      WriteAll(file.get(), std::as_bytes(std::span(behind.data(), behind.size())), path));
  if (::fsync(file.get()) != 0) return ErrnoStatus("cannot sync " + path, errno);
  return OkStatus();
}

}  // namespace

Status WriteBatchFile(const PackedBatch& batch, const std::string& path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return InvalidArgument(path + ": is no regular file, and is not replaced");
  }
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  Status status = WriteSynced(temporary, batch.bytes(), Trailer(batch.digest()));
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus("cannot rename a file to " + path, errno);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  // The new name is durable only after its folder has been synced.
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0) {
    return ErrnoStatus("cannot sync " + folder, errno);
  }
  return OkStatus();
}

Result<std::shared_ptr<const PackedBatch>> ReadBatchFile(const std::string& path,
                                                         BufferPool& pool) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return ErrnoStatus("cannot open " + path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus("cannot look at " + path, errno);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path + " is not a regular file");
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> buffer,
                            pool.Acquire(static_cast<std::size_t>(info.st_size)));
  MILLRACE_RETURN_IF_ERROR(ReadAll(file.get(), buffer->bytes(), path));
  std::size_t size = buffer->size();
  if (size % kTensorAlignment == kTrailerBytes) {
    size -= kTrailerBytes;
    const Status checked =
        CheckTrailer(buffer->bytes().first(size), buffer->bytes().subspan(size, kTrailerBytes));
    if (!checked.ok()) return checked.WithContext(path);
  }
  auto batch = PackedBatch::Parse(buffer, size);
  if (!batch.ok()) return batch.status().WithContext(path);
  return batch;
}

}  // namespace millrace
