#include "client/session/machine/streams.h"

#include <vector>

namespace millrace::client {

bool Streams::ChooseMore(Time now) {
  std::size_t more = 0;
  if (chosen_.size() == workers_.members().size()) return false;
  for (WorkerLink* link : workers_.members()) {
    if (more == kAtOnce) break;
    if (link->usable(now) && chosen_.insert(link->where.id).second) ++more;
  }
  return more > 0;
}

void Streams::Open(Time now) {
  std::erase_if(chosen_, [this](Number id) {
    const WorkerLink* const link = workers_.Find(id);
    return link == nullptr || !link->place;
  });
  if (dealing_.wants_more() && now >= raised_ + kMoreEvery && ChooseMore(now)) raised_ = now;
  for (const Number id : chosen_) {
    WorkerLink& link = *workers_.Find(id);
    if (link.stream.id != 0 || !link.usable(now)) continue;
    workers_.Opened(link, context_.actions.NewStream(), now);
    context_.actions.Put(OpenBatches{link.stream.id, link.where});
  }
}

void Streams::CloseUnused(Time now) {
  const std::vector<WorkerLink*> open = workers_.open();
  for (WorkerLink* const link : open) {
    if (!asks_.Of(link->where.id).steps.empty() || link->stream.writing) {
      link->stream.unused_since = now;
    } else if (now - link->stream.unused_since >= kCloseUnused) {
      context_.actions.Put(CloseStream{link->stream.id, OkStatus()});
      workers_.Closed(*link);
      chosen_.erase(link->where.id);
    }
  }
}

void Streams::AddTimes(NextDue& next) const {
  if (dealing_.wants_more()) next.At(raised_ + kMoreEvery);
}

void Streams::AddRetries(NextDue& next) const {
  for (const Number id : chosen_) {
    const WorkerLink* const link = workers_.Find(id);
    if (link != nullptr && link->stream.id == 0) next.At(link->failing_until);
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
