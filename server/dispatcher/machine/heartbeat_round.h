// Turns of streams to get a heartbeat. Each stream gets one once a period. The turns are spread
// over the period: a thousand messages at once would hold up all events after them.
//
// A round takes a period and goes through the streams by their numbers. Newer streams have higher
// numbers, so a stream that opens during a round still has its turn in it. A stream's turn comes
// once a period if streams neither open nor close, and within two periods in any case.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "common/base/time.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

class HeartbeatRound {
 public:
  /// The first round begins at `now`.
  HeartbeatRound(Time now, Duration period) : period_(period), began_(now) {}

  /// Whether the round ends with the next Take.
  bool Ends(Time now) const { return now - began_ >= period_; }
  /// Takes the streams whose turn has come since the last Take, in order. If the round ends, these
  /// are all its remaining streams, and the next round begins.
  std::vector<StreamId> Take(const std::map<StreamId, StreamFacts>& streams, Time now);

 private:
  const Duration period_;
  Time began_;            // of this round
  std::size_t told_ = 0;  // streams that had their turn in it
  StreamId last_ = 0;     // the last of them
};

}  // namespace millrace
