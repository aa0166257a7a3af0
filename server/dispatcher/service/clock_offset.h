// Estimates how far a peer's clock is from the dispatcher's, from messages that are exchanged
// anyway.
//
// Not thread-safe.
#pragma once

#include <optional>

#include "common/base/time.h"

namespace millrace {

/// One message to the peer and one back, each stamped when it left and when it arrived.
struct RoundTrip {
  Time asked;         // by our clock
  Time ask_received;  // by the peer's clock
  Time sent;          // by the peer's clock
  Time received;      // by our clock
};

/// NTP's estimate (RFC 5905, section 8): the offset of the round trip whose messages were on their
/// way for the shortest time. It is off by at most half of that time.
class ClockOffset {
 public:
  /// `same_clock` says that both processes read one clock, so that the offset is 0. It holds until
  /// a round trip contradicts it, as happens if a process has a time namespace of its own.
  explicit ClockOffset(bool same_clock = false) : same_clock_(same_clock) {}

  /// Takes a round trip. Impossible ones are ignored: a clock was set, or the peer lies.
  void Add(const RoundTrip& trip);
  bool known() const { return same_clock_ || shortest_.has_value(); }
  /// The peer's clock minus ours; 0 if that is not known.
  Duration offset() const { return same_clock_ ? Duration{0} : offset_; }
  /// The offset is off by at most this; 0 if it is not known.
  Duration error() const { return same_clock_ || !shortest_ ? Duration{0} : *shortest_ / 2; }

 private:
  bool same_clock_;
  std::optional<Duration> shortest_;
  Duration offset_{0};
};

}  // namespace millrace
