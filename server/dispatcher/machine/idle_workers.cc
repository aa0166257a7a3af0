#include "server/dispatcher/machine/idle_workers.h"

#include "server/dispatcher/machine/hello_check.h"
#include "server/dispatcher/machine/usable_workers.h"

namespace millrace {

namespace {

/// A worker's memory that is full to this part may have no room for a batch.
constexpr double kFull = 0.9;

bool IsOfHost(WorkerId id, const SessionFacts& session, const std::map<WorkerId, Worker>& workers) {
  const auto worker = workers.find(id);
  return worker != workers.end() &&
         SameHost(worker->second.report.self().host_id(), session.hello.host_id());
}

}  // namespace

void ListUse::Add(const SessionFacts& session, const std::map<WorkerId, Worker>& workers) {
  if (!session.live || !session.report) return;
  const bool asks = session.report->asks();
  bool& asked = plans_[session.plan->fingerprint];
  asked = asked || asks;
  const std::size_t used = session.report->used();
  const bool own_host_first = asks && used > 0 && !session.list.members.empty() &&
                              IsOfHost(session.list.members.front(), session, workers);
  for (std::size_t i = 0; i < session.list.members.size(); ++i) {
    Place& place = listed_[session.list.members[i]];
    if (!asks) continue;
    (i < used ? place.used : place.behind) = true;
    if (i >= used && own_host_first && !IsOfHost(session.list.members[i], session, workers)) {
      place.off_host = true;
    }
  }
}

std::string ListUse::IdleWhy(const Worker& worker, Time now,
                             const DispatcherOptions& options) const {
  if (worker.report.idle_threads() == 0) return {};
  if (!IsHeard(worker, now, options)) return "silent";
  if (worker.draining()) return "drains";
  if (worker.ready.empty()) return "no plan";
  bool wanted = false;  // by a live consumer
  bool asked = false;
  for (const std::string& plan : worker.ready) {
    const auto found = plans_.find(plan);
    wanted = wanted || found != plans_.end();
    asked = asked || (found != plans_.end() && found->second);
  }
  if (!wanted) return "no consumer";
  const auto listed = listed_.find(worker.id);
  if (listed == listed_.end()) return asked ? "list full" : "no step in reach";
  const Place& place = listed->second;
  if (!place.used && !place.behind) return "no step in reach";
  const auto memory = static_cast<double>(worker.report.memory_bytes());
  const auto limit = static_cast<double>(worker.report.memory_limit_bytes());
  if (limit > 0 && memory >= kFull * limit) return "memory full";
  return place.off_host && !place.used ? "another host first" : "steps go to faster workers";
}

}  // namespace millrace
