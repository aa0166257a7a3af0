#include "client/session/machine/streams.h"

#include <vector>

namespace millrace::client {

bool Streams::ChooseMore(Time now) {
  std::size_t more = 0;
  for (WorkerLink* const link : workers_.members()) {
    if (more == kAtOnce) break;
    if (link->chosen || !link->usable(now)) continue;
    link->chosen = true;
    ++more;
  }
  return more > 0;
}

void Streams::Open(Time now) {
  if (dealing_.wants_more() && now >= raised_ + kMoreEvery && ChooseMore(now)) raised_ = now;
  for (WorkerLink* const link : workers_.members()) {
    // If a stream fails, it is opened again.
    if (!link->chosen || link->stream.id != 0 || !link->usable(now)) continue;
    workers_.Opened(*link, context_.actions.NewStream(), now);
    context_.actions.Put(OpenBatches{link->stream.id, link->where});
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
      link->chosen = false;
    }
  }
}

void Streams::AddTimes(NextDue& next) const {
  if (dealing_.wants_more()) next.At(raised_ + kMoreEvery);
}

void Streams::AddRetries(NextDue& next) const {
  for (const WorkerLink* const link : workers_.members()) {
    if (link->chosen && link->stream.id == 0) next.At(link->failing_until);
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
