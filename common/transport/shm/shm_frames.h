// The frames that a worker and a consumer on one host send each other over their socket. The
// batches themselves are in shared memory. Both ends have to be of the same version; otherwise they
// refuse each other (kShmVersion). They begin with three frames by which each proves that it knows
// the key of the worker's address: kShmHello, kShmAccepted, kShmProof.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "common/transport/shm/shm_key.h"

namespace millrace {

/// Grows with every change of the frames.
inline constexpr std::uint32_t kShmVersion = 2;

enum ShmFrame : std::uint32_t {
  // From worker to consumer:
  kShmAccepted = 1,  // a ShmAccepted; always the first frame, in answer to a ShmHello
  kShmSegment = 2,   // a ShmSegment, with its open file; comes before the first fragment in it
  kShmFragment = 3,  // a ShmFragment, the BatchFragment, and data that are not in shared memory
  kShmClosed = 4,    // the status code as 4 bytes, and the message; always the last frame
  // From consumer to worker:
  kShmHello = 14,     // a ShmHello; always the first frame
  kShmProof = 15,     // the consumer's ShmProof; always the second frame
  kShmWants = 16,     // a WantList
  kShmReleased = 17,  // the token of a fragment (8 bytes), whose memory may be used again
  kShmDone = 18,      // the consumer wants nothing more; the worker closes
  // The token of the last fragment that was read (8 bytes). The consumer reads no more fragments.
  // It may still hold fragments up to this one, and releases them later.
  kShmCancelled = 19,
};

struct ShmHello {
  std::uint32_t version;
  ShmNonce nonce;
};
struct ShmAccepted {
  std::uint32_t version;
  ShmNonce nonce;
  ShmProof proof;  // the worker's
};
struct ShmSegment {
  std::uint64_t bytes;
  std::uint32_t number;
  std::uint32_t unused;
};
struct ShmFragment {
  std::uint64_t token;   // 0: the data follow the BatchFragment
  std::uint64_t offset;  // from the start of the segment
  std::uint64_t bytes;   // size of the data
  std::uint32_t segment;
  std::uint32_t message_bytes;  // size of the BatchFragment
};

/// The bytes of `value` in a frame. The view is valid as long as `value` exists.
template <class T>
requires std::is_trivially_copyable_v<T> std::string_view RawBytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace millrace
