// A dispatcher as a daemon runs it: alone, with a store of its own (dispatcher_service.h), or one
// of several that share a store, of which one leads (elected_dispatcher.h).
#pragma once

#include <cstdint>
#include <string>

#include "common/base/metrics.h"
#include "common/base/time.h"
#include "common/transport/stream.h"

namespace millrace {

/// Thread-safe.
class RunningDispatcher : public DispatcherEndpoint {
 public:
  /// Ends all streams with Unavailable, which peers take as a reason to come back, or to go to
  /// another one. Jobs stay live. Idempotent.
  virtual void Stop() = 0;
  /// A dataset of this host: digest and, for naming differences, the list of its files. Again when
  /// that changes.
  virtual void SetDataset(const std::string& id, v1::DatasetState dataset) = 0;
  /// Where it listens, for status and messages: known only once it does.
  virtual void SetAddress(const std::string& address) = 0;
  /// The metrics of a dispatcher, filled in: without most of them where its event loop does not
  /// answer, and where it does not lead.
  virtual void AddMetrics(MetricSet& metrics) = 0;
  /// Whether this dispatcher leads: its term has begun and no higher one is known.
  virtual bool leads() const = 0;
  /// When its event loop was last seen to go round.
  virtual Time last_round() const = 0;
  /// Of the leading dispatcher in this process; 0 where it does not lead.
  virtual std::uint64_t term() const = 0;
};

}  // namespace millrace
