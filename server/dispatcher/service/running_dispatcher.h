// A dispatcher as a daemon runs it. Either it is alone, with a store of its own
// (dispatcher_service.h), or it is one of several that share a store, and only one of them leads
// (elected_dispatcher.h).
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
  /// Ends all streams with Unavailable. Peers then come back, or go to another dispatcher. Jobs
  /// stay live. Idempotent.
  virtual void Stop() = 0;
  /// Sets the state of a dataset of this host: its digest, and the list of its files, by which
  /// differences are named. Call it again when the state changes.
  virtual void SetDataset(const std::string& id, v1::DatasetState dataset) = 0;
  /// Sets the address at which it listens, for status and messages. The address is not known before
  /// it listens.
  virtual void SetAddress(const std::string& address) = 0;
  /// Adds the dispatcher's metrics. Most of them are missing if its event loop does not answer, or
  /// if it does not lead.
  virtual void AddMetrics(MetricSet& metrics) = 0;
  /// Whether this dispatcher leads: its term has begun and no higher one is known.
  virtual bool leads() const = 0;
  /// The time of its event loop's last round.
  virtual Time last_round() const = 0;
  /// The term in which it leads; 0 if it does not lead.
  virtual std::uint64_t term() const = 0;
};

}  // namespace millrace
