// How far a peer's clock is from the dispatcher's, from messages that go to and fro anyway.
//
// Not thread-safe.
#pragma once

#include <optional>

#include "common/base/time.h"

namespace millrace {

/// One message there and one back, each stamped when it left and when it came.
struct RoundTrip {
  Time asked;         // by our clock
  Time ask_received;  // by the peer's
  Time sent;          // by the peer's
  Time received;      // by ours
};

/// NTP's estimate (RFC 5905, section 8): the offset of the round trip that was on its way for the
/// shortest time, right within half of that time.
class ClockOffset {
 public:
  /// `same_clock`: both processes read one clock, so that the offset is none. That is taken only
  /// while no round trip contradicts it (processes in time namespaces of their own).
  explicit ClockOffset(bool same_clock = false) : same_clock_(same_clock) {}

  /// Round trips that cannot have been are ignored: of clocks that were set, or of a peer that
  /// lies.
  void Add(const RoundTrip& trip);
  bool known() const { return same_clock_ || shortest_.has_value(); }
  /// The peer's clock minus ours; none where it is not known.
  Duration offset() const { return same_clock_ ? Duration{0} : offset_; }
  /// The offset is right within this.
  Duration error() const { return same_clock_ || !shortest_ ? Duration{0} : *shortest_ / 2; }

 private:
  bool same_clock_;
  std::optional<Duration> shortest_;
  Duration offset_{0};
};

}  // namespace millrace
