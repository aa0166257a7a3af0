// How many bytes one worker may have on their way to a consumer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace millrace::client {

/// Without a limit until the worker is silent while it owes batches: that is what a network looks
/// like that holds more bytes than it passes on in that time. What is asked for again would then
/// only wait behind what was asked for before. From then on as TCP's congestion window after a
/// timeout: none, then as much again as has come (double in each round trip) up to half of what was
/// on its way, then a batch more in each round trip, until it limits nothing any more.
///
/// The step that the loop takes next waits for no credit: none is a limit that lets go on.
///
/// Not thread-safe.
class CreditLimit {
 public:
  std::uint64_t bytes() const { return bytes_; }

  /// The worker was given up, with so many bytes on their way.
  void OnSilence(std::uint64_t under_way) {
    // Where nothing came in between it is the same silence.
    if (bytes_ != 0) slow_from_ = under_way / 2;
    bytes_ = 0;
  }

  /// A whole batch of so many bytes came. `enough`: what is never asked for beyond.
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
