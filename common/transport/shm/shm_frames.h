// What a worker and a consumer of one host say to each other over their socket, beside the shared
// memory that the batches lie in. Both are of one build or refuse each other: see kShmVersion.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace millrace {

/// Rises with every change of the frames.
inline constexpr std::uint32_t kShmVersion = 1;

enum ShmFrame : std::uint32_t {
  // worker to consumer
  kShmAccepted = 1,  // ShmAccepted: the first frame
  kShmSegment = 2,   // ShmSegment, with the open file: before the first part that lies in it
  kShmPart = 3,      // ShmPart, the BatchPart, and the data where they are not in place
  kShmClosed = 4,    // the status's code as 4 bytes, and its message: the last frame
  // consumer to worker
  kShmWants = 16,     // a WantList
  kShmReleased = 17,  // the token of a part, 8 bytes: its memory may be used again
  kShmDone = 18,      // nothing more is wanted: the worker closes
  // The token of the last part that was read, 8 bytes: nothing more is. Parts up to it may still be
  // held, and are released later.
  kShmCancelled = 19,
};

struct ShmAccepted {
  std::uint32_t version;
};
struct ShmSegment {
  std::uint64_t bytes;
  std::uint32_t number;
  std::uint32_t unused;
};
struct ShmPart {
  std::uint64_t token;   // 0: the data are behind the BatchPart
  std::uint64_t offset;  // in the segment
  std::uint64_t bytes;   // of data
  std::uint32_t segment;
  std::uint32_t part_bytes;  // of the BatchPart
};

/// `value` as it lies in a frame. The view lasts as long as `value` does.
template <class T>
requires std::is_trivially_copyable_v<T> std::string_view RawBytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace millrace
