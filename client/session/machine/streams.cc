#include "client/session/machine/streams.h"

#include <algorithm>

namespace millrace::client {

void Streams::Open(Time now) {
  if (dealing_.wants_more() && now >= raised_ + kMoreEvery) {
    // The first ones are given time to speak.
    if (raised_ != Time{}) target_ = std::min(target_ + kAtOnce, workers_.members().size());
    target_ = std::max(target_, kAtOnce);
    raised_ = now;
    resting_.clear();
  }
  std::size_t usable = 0;
  for (WorkerLink* link : workers_.members()) {
    if (usable >= target_) return;
    if (!link->usable(now) || resting_.contains(link->where.id)) continue;
    ++usable;
    if (link->stream.id != 0) continue;
    workers_.Opened(*link, context_.actions.NewStream(), now);
    context_.actions.Put(OpenBatches{link->stream.id, link->where});
  }
}

void Streams::CloseUnused(Time now) {
  for (auto& [id, link] : workers_.all()) {
    if (link.stream.id == 0) continue;
    if (!asks_.Of(id).steps.empty() || link.stream.writing) {
      link.stream.unused_since = now;
    } else if (now - link.stream.unused_since >= kCloseUnused) {
      context_.actions.Put(CloseStream{link.stream.id, OkStatus()});
      workers_.Closed(link);
      resting_.insert(id);
    }
  }
  std::erase_if(resting_, [this](Number id) { return workers_.Find(id) == nullptr; });
}

void Streams::AddTimes(NextDue& next) const {
  if (dealing_.wants_more()) next.At(raised_ + kMoreEvery);
  for (const WorkerLink* link : workers_.members()) {
    if (link->stream.id == 0) next.At(link->failing_until);
  }
}

std::size_t Streams::MembersUsed() const {
  const auto& members = workers_.members();
  for (std::size_t used = members.size(); used > 0; --used) {
    if (!asks_.Of(members[used - 1]->where.id).steps.empty()) return used;
  }
  return 0;
}

}  // namespace millrace::client
