// Memory that batches are built in and that other processes of the host can read: segments of
// shared memory without a name, each an open file that is handed to whoever reads it. They go with
// the last process that has them, however that ends.
//
// Readers can neither write nor resize a segment (seals SHRINK, GROW and FUTURE_WRITE), so that no
// reader can take the writer down, and no writer a reader.
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

/// Where bytes lie in an arena.
struct SharedPlace {
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
};

class SharedArena final : public BufferMemory {
 public:
  static constexpr std::size_t kSegmentBytes = std::size_t{64} << 20;

  /// Takes up to `max_bytes` of shared memory, segment by segment as it is needed, and keeps it.
  explicit SharedArena(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}
  ~SharedArena() override;
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  /// nullptr beyond the limit, and where the system gives none.
  std::byte* Allocate(std::size_t bytes) override;
  void Free(std::byte* data, std::size_t bytes) override;

  /// Where the bytes lie; none where they are not of this arena's shared memory.
  std::optional<SharedPlace> Locate(std::span<const std::byte> bytes) const;

  struct Segment {
    int file = -1;  // stays the arena's
    std::uint64_t bytes = 0;
  };
  /// REQUIRES: the segment is one that Locate gave.
  Segment segment(std::uint32_t number) const;

  /// Bytes of shared memory taken from the system.
  std::uint64_t shared_bytes() const;

 private:
  struct Mapped {
    Segment segment;
    std::byte* data = nullptr;
    std::map<std::uint64_t, std::uint64_t> free;  // offset -> bytes; neighbours are merged
  };

  std::byte* TakeFrom(Mapped& mapped, std::size_t bytes) MILLRACE_REQUIRES(mutex_);
  std::byte* TakeFree(std::size_t bytes) MILLRACE_EXCLUDES(mutex_);
  /// None where the system gives none.
  static std::optional<Mapped> MakeSegment(std::uint64_t bytes);
  std::optional<SharedPlace> Find(const std::byte* data) const MILLRACE_REQUIRES(mutex_);

  const std::uint64_t max_bytes_;
  Mutex grow_mutex_;  // before mutex_
  mutable Mutex mutex_;
  std::vector<Mapped> segments_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t shared_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

/// A segment of somebody else's arena, mapped for reading.
class SharedView {
 public:
  /// Takes the file over. InvalidArgument where it is smaller than it was said to be, or could be
  /// cut off under the reader; ResourceExhausted where it cannot be mapped.
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
