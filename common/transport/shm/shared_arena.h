// Memory in which batches are built and which other processes of the host can read. It consists of
// segments of shared memory without a name. Each segment is an open file that is handed to its
// readers. A segment disappears with the last process that has it, however that process ends.
//
// Readers can neither write to a segment nor resize it (seals SHRINK, GROW and FUTURE_WRITE). So no
// reader can crash the writer, and the writer cannot crash a reader.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/batch/buffer_memory.h"
#include "common/system/mutex.h"

namespace millrace {

/// The place of bytes in an arena.
struct SharedPlace {
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
};

class SharedArena final : public BufferMemory {
 public:
  static constexpr std::size_t kSegmentBytes = std::size_t{64} << 20;

  /// Takes up to `max_bytes` of shared memory, one segment at a time as it is needed, and keeps it.
  explicit SharedArena(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}
  ~SharedArena() override;
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  /// nullptr beyond the limit, and if the system has no memory left.
  std::byte* Allocate(std::size_t bytes) override;
  void Free(std::byte* data, std::size_t bytes) override;

  /// Where the bytes are; nullopt if they are not in the shared memory of this arena.
  std::optional<SharedPlace> Locate(std::span<const std::byte> bytes) const;

  struct Segment {
    int file = -1;  // owned by the arena
    std::uint64_t bytes = 0;
  };
  /// REQUIRES: Locate has returned the number of this segment.
  Segment segment(std::uint32_t number) const;

  /// How many bytes of shared memory were taken from the system.
  std::uint64_t shared_bytes() const;

 private:
  struct Mapped {
    Segment segment;
    std::byte* data = nullptr;
    std::map<std::uint64_t, std::uint64_t> free;  // offset -> bytes; adjacent pieces are merged
  };

  std::byte* TakeFrom(Mapped& mapped, std::size_t bytes) MILLRACE_REQUIRES(mutex_);
  std::byte* TakeFree(std::size_t bytes) MILLRACE_EXCLUDES(mutex_);
  /// nullopt if the system has no memory left.
  static std::optional<Mapped> MakeSegment(std::uint64_t bytes);
  std::optional<SharedPlace> Find(const std::byte* data) const MILLRACE_REQUIRES(mutex_);

  const std::uint64_t max_bytes_;
  Mutex grow_mutex_;  // to be locked before mutex_
  mutable Mutex mutex_;
  std::vector<Mapped> segments_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t shared_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

/// A segment of the arena of another process, mapped for reading.
class SharedView {
 public:
  /// Takes ownership of the file. InvalidArgument if it is smaller than `bytes`, or if it could be
  /// cut off under the reader. ResourceExhausted if it cannot be mapped.
  static Result<std::shared_ptr<const SharedView>> Map(int file, std::uint64_t bytes);
  ~SharedView();
  SharedView(const SharedView&) = delete;
  SharedView& operator=(const SharedView&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit SharedView(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace millrace
