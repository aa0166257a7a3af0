#include "common/transport/shm/shared_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "common/system/errno_status.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1
#endif

namespace millrace {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

/// Takes the pages now. If the system could not give a page later, the process would get a SIGBUS.
bool Reserve(int file, std::uint64_t bytes) {
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  return error == 0;
}

}  // namespace

SharedArena::~SharedArena() {
  for (const Mapped& mapped : segments_) {
    munmap(mapped.data, mapped.segment.bytes);
    close(mapped.segment.file);
  }
}

std::byte* SharedArena::Allocate(std::size_t bytes) {
  if (std::byte* const data = TakeFree(bytes)) return data;
  // One thread asks the system for memory, and the others wait for its result. Frees and lookups go
  // on meanwhile.
  MutexLock grow(grow_mutex_);
  if (std::byte* const data = TakeFree(bytes)) return data;
  const std::uint64_t left = max_bytes_ - shared_bytes();
  if (bytes > left) return nullptr;
  std::optional<Mapped> segment =
      MakeSegment(std::max<std::uint64_t>(bytes, std::min<std::uint64_t>(kSegmentBytes, left)));
  if (!segment) return nullptr;
  MutexLock lock(mutex_);
  shared_bytes_ += segment->segment.bytes;
  segments_.push_back(*std::move(segment));
  return TakeFrom(segments_.back(), bytes);
}

void SharedArena::Free(std::byte* data, std::size_t bytes) {
  MutexLock lock(mutex_);
  const std::optional<SharedPlace> place = Find(data);
  auto& free = segments_.at(place.value().segment).free;
  auto it = free.emplace(place->offset, bytes).first;
  if (const auto next = std::next(it);
      next != free.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free.erase(next);
  }
  if (it != free.begin()) {
    const auto before = std::prev(it);
    if (before->first + before->second == it->first) {
      before->second += it->second;
      free.erase(it);
    }
  }
}

std::byte* SharedArena::TakeFree(std::size_t bytes) {
  MutexLock lock(mutex_);
  for (Mapped& mapped : segments_) {
    if (std::byte* const data = TakeFrom(mapped, bytes)) return data;
  }
  return nullptr;
}

std::byte* SharedArena::TakeFrom(Mapped& mapped, std::size_t bytes) {
  // Sizes are those of a pool's classes, so they are multiples of the alignment.
  for (auto it = mapped.free.begin(); it != mapped.free.end(); ++it) {
    const auto [offset, size] = *it;
    if (size < bytes) continue;
    mapped.free.erase(it);
    if (size > bytes) mapped.free.emplace(offset + bytes, size - bytes);
    return mapped.data + offset;
  }
  return nullptr;
}

std::optional<SharedArena::Mapped> SharedArena::MakeSegment(std::uint64_t bytes) {
  const int file = memfd_create("millrace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return std::nullopt;
  void* data = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0 && Reserve(file, bytes)) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (data == MAP_FAILED || fcntl(file, F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) {
    if (data != MAP_FAILED) munmap(data, bytes);
    close(file);
    return std::nullopt;
  }
  Mapped mapped;
  mapped.segment = {file, bytes};
  mapped.data = static_cast<std::byte*>(data);
  mapped.free.emplace(0, bytes);
  return mapped;
}

std::optional<SharedPlace> SharedArena::Find(const std::byte* data) const {
  for (std::uint32_t s = 0; s < segments_.size(); ++s) {
    const Mapped& mapped = segments_[s];
    if (data >= mapped.data && data < mapped.data + mapped.segment.bytes) {
      return SharedPlace{s, static_cast<std::uint64_t>(data - mapped.data)};
    }
  }
  return std::nullopt;
}

std::optional<SharedPlace> SharedArena::Locate(std::span<const std::byte> bytes) const {
  MutexLock lock(mutex_);
  return Find(bytes.data());
}

SharedArena::Segment SharedArena::segment(std::uint32_t number) const {
  MutexLock lock(mutex_);
  return segments_.at(number).segment;
}

std::uint64_t SharedArena::shared_bytes() const {
  MutexLock lock(mutex_);
  return shared_bytes_;
}

Result<std::shared_ptr<const SharedView>> SharedView::Map(int file, std::uint64_t bytes) {
  struct stat status {};
  const int seals = fcntl(file, F_GET_SEALS);
  if (fstat(file, &status) != 0 || static_cast<std::uint64_t>(status.st_size) < bytes ||
      bytes == 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    close(file);
    return InvalidArgument("shared memory of " + std::to_string(status.st_size) +
                           " bytes, expected " + std::to_string(bytes) + " that cannot shrink");
  }
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  if (data == MAP_FAILED) {
    return ErrnoStatus("mapping " + std::to_string(bytes) + " bytes of shared memory", error);
  }
  return std::shared_ptr<const SharedView>(
      new SharedView({static_cast<const std::byte*>(data), bytes}));
}

SharedView::~SharedView() { munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace millrace
