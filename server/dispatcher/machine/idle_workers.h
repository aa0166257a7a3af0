// Why workers have threads with nothing to build, in a phrase for people.
//
// Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// The use of workers by the lists of consumers.
class ListUse {
 public:
  void Add(const SessionFacts& session, const std::map<WorkerId, Worker>& workers);
  /// Why some threads of the worker idle, once all sessions were added; empty if all are busy.
  std::string IdleWhy(const Worker& worker, Time now, const DispatcherOptions& options) const;

 private:
  struct Place {
    bool used = false;      // a consumer that asks has it in use
    bool behind = false;    // a consumer that asks uses only members before it
    bool off_host = false;  // likewise, and the first one is of the consumer's host
  };
  std::unordered_map<WorkerId, Place> listed_;  // workers that are in any list
  std::map<std::string, bool> plans_;           // of live sessions; whether one of them asks
};

}  // namespace millrace
