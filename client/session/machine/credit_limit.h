// Limits how many bytes one worker may have on their way to a consumer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace millrace::client {

/// There is no limit until the worker is given up because it was silent while it owed batches. Such
/// a silence may mean that the network holds more bytes than it passes on in that time. Batches
/// that are asked for again would only wait behind the bytes that are already on their way.
///
/// After a silence the limit changes like TCP's congestion window after a timeout. It starts at 0.
/// First it grows by as many bytes as have come, which doubles it in each round trip, until it is
/// half of the bytes that were on their way. Then it grows by one batch in each round trip, until
/// it is so high that it limits nothing any more.
///
/// A limit of 0 cannot block the session, since the step that the loop takes next needs no credit.
///
/// Not thread-safe.
class CreditLimit {
 public:
  std::uint64_t bytes() const { return bytes_; }

  /// The worker was given up while `under_way` bytes were on their way.
  void OnSilence(std::uint64_t under_way) {
    // If nothing came since the last silence, this is still the same silence.
    if (bytes_ != 0) slow_from_ = under_way / 2;
    bytes_ = 0;
  }

  /// A whole batch of `batch_bytes` came. `enough` is the most that is ever asked for: a limit that
  /// reaches it is lifted.
  void OnBatch(std::uint64_t batch_bytes, std::uint64_t enough) {
    if (bytes_ == kNone) return;
    const bool slow = bytes_ >= std::max(slow_from_, batch_bytes);
    const double share = static_cast<double>(batch_bytes) / static_cast<double>(bytes_);
    bytes_ += slow ? static_cast<std::uint64_t>(share * static_cast<double>(batch_bytes)) + 1
                   : batch_bytes;
    if (bytes_ >= enough) bytes_ = kNone;
  }

 private:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t bytes_ = kNone;
  std::uint64_t slow_from_ = 0;
};

}  // namespace millrace::client
