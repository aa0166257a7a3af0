#include "client/session/machine/worker_book.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace millrace::client {

WorkerLink& WorkerBook::Learn(const WorkerAddress& worker) {
  WorkerLink& link = links_[worker.id];
  link.where = worker;
  link.drains = false;
  return link;
}

WorkerLink* WorkerBook::Find(Number worker) {
  const auto it = links_.find(worker);
  return it == links_.end() ? nullptr : &it->second;
}

const WorkerLink* WorkerBook::Find(Number worker) const {
  const auto it = links_.find(worker);
  return it == links_.end() ? nullptr : &it->second;
}

WorkerLink* WorkerBook::FindStream(StreamId stream) {
  const auto it = streams_.find(stream);
  return it == streams_.end() ? nullptr : Find(it->second);
}

void WorkerBook::Opened(WorkerLink& link, StreamId stream, Time now) {
  link.stream = {};
  link.stream.id = stream;
  link.stream.heard = now;
  link.stream.unused_since = now;
  streams_[stream] = link.where.id;
}

void WorkerBook::Closed(WorkerLink& link) {
  streams_.erase(link.stream.id);
  link.stream = {};
  link.room = 0;
}

void WorkerBook::Failed(WorkerLink& link, std::string reason, Time now) {
  link.backoff =
      link.backoff == Duration{0} ? kFirstBackoff : std::min(link.backoff * 2, kLongestBackoff);
  link.failing_until = now + link.backoff;
  link.reason = std::move(reason);
}

void WorkerBook::Proved(WorkerLink& link) {
  link.backoff = Duration{0};
  link.failing_until = {};
}

void WorkerBook::ForgetDead(const std::function<bool(const WorkerLink&)>& is_needed, Time now) {
  for (auto& [id, link] : links_) {
    if (link.stream.id != 0 || link.used == Time{}) link.used = now;
  }
  std::erase_if(links_, [&](const auto& entry) {
    const WorkerLink& link = entry.second;
    // If a draining worker stays after all, the dispatcher names it again.
    const bool gone = link.drains || now - link.used >= kForgetUnused ||
                      (link.failing_until != Time{} && now - link.failing_until >= kForgetAfter);
    return gone && link.stream.id == 0 && link.tried.empty() && !is_needed(link);
  });
}

void WorkerBook::Refused(WorkerLink& link, const Status& why, std::uint64_t until) {
  if (link.refusal) until = std::max(until, link.refusal->until);
  link.refusal = WorkerLink::Refusal{why.code(), why.message(), until};
}

std::size_t WorkerBook::TriedBy(std::uint64_t step) const {
  return static_cast<std::size_t>(
      std::count_if(links_.begin(), links_.end(),
                    [step](const auto& entry) { return entry.second.tried.contains(step); }));
}

WorkerLink* WorkerBook::ForSelfLease(std::uint64_t step, const std::string& own_host,
                                     const std::function<std::uint64_t(Number)>& load, Time now) {
  using Rank = std::tuple<bool, Time, bool, std::uint64_t>;
  WorkerLink* best = nullptr;
  Rank best_rank;
  for (auto& [id, link] : links_) {
    if (link.drains || link.refusal || link.tried.contains(step)) continue;
    const bool fails = link.failing_until > now;
    const Rank rank{fails, fails ? link.failing_until : Time{},
                    own_host.empty() || link.where.host_id != own_host, load(id)};
    if (best != nullptr && best_rank <= rank) continue;
    best = &link;
    best_rank = rank;
  }
  return best;
}

void WorkerBook::MarkStale(bool urgent) {
  for (auto& [id, link] : links_) {
    link.stream.stale = true;
    link.stream.urgent = link.stream.urgent || urgent;
  }
}

void WorkerBook::ForgetRefusals(std::uint64_t next) {
  for (auto& [id, link] : links_) {
    if (link.refusal && link.refusal->until <= next) link.refusal.reset();
    link.tried.erase(link.tried.begin(), link.tried.lower_bound(next));
  }
}

}  // namespace millrace::client
