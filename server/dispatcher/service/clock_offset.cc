#include "server/dispatcher/service/clock_offset.h"

namespace millrace {
namespace {

/// Longer than any clock has run. This limit keeps sums from overflowing.
constexpr Duration kLatest = std::chrono::hours(24 * 365 * 50);

bool IsTime(Time time) { return time > Time{} && time < Time{kLatest}; }

}  // namespace

void ClockOffset::Add(const RoundTrip& trip) {
  for (const Time time : {trip.asked, trip.ask_received, trip.sent, trip.received}) {
    if (!IsTime(time)) return;
  }
  const Duration there = trip.received - trip.asked;
  const Duration held = trip.sent - trip.ask_received;
  const Duration on_its_way = there - held;
  if (there < Duration{0} || held < Duration{0} || on_its_way < Duration{0}) return;
  if (shortest_ && *shortest_ <= on_its_way) return;
  shortest_ = on_its_way;
  offset_ = ((trip.ask_received - trip.asked) + (trip.sent - trip.received)) / 2;
  const Duration off = offset_ < Duration{0} ? -offset_ : offset_;
  if (off > on_its_way / 2 + Duration{1}) same_clock_ = false;
}

}  // namespace millrace
