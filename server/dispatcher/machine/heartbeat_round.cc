#include "server/dispatcher/machine/heartbeat_round.h"

#include <algorithm>

namespace millrace {

std::vector<StreamId> HeartbeatRound::Take(const std::map<StreamId, StreamFacts>& streams,
                                           Time now) {
  const double share = std::clamp(ToSeconds(now - began_) / ToSeconds(period_), 0.0, 1.0);
  const auto shall = static_cast<std::size_t>(share * static_cast<double>(streams.size()));
  const bool ends = Ends(now);
  std::vector<StreamId> turn;
  for (auto it = streams.upper_bound(last_); it != streams.end() && (ends || told_ < shall); ++it) {
    turn.push_back(it->first);
    last_ = it->first;
    ++told_;
  }
  if (ends) {
    began_ = now;
    told_ = 0;
    last_ = 0;
  }
  return turn;
}

}  // namespace millrace
