// A dispatcher as a daemon runs it: alone, with a store of its own (dispatcher_service.h), or one
// of several that share a store, of which one leads (elected_dispatcher.h).
#pragma once

#include <cstdint>
#include <string>

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
  /// Of the leading dispatcher in this process; 0 where it does not lead.
  virtual std::uint64_t term() const = 0;
};

}  // namespace millrace
