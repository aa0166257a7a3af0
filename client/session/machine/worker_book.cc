#include "client/session/machine/worker_book.h"

#include <array>
#include <utility>

namespace millrace::client {
namespace {

constexpr std::array<Duration, 5> kBackoff = {std::chrono::milliseconds(500),
                                              std::chrono::seconds(1), std::chrono::seconds(2),
                                              std::chrono::seconds(4), std::chrono::seconds(5)};

}  // namespace

void WorkerBook::SetList(const std::vector<WorkerAddress>& list) {
  std::set<WorkerId> before;
  for (auto& [id, link] : links_) {
    if (link.place) before.insert(id);
    link.place.reset();
  }
  members_.clear();
  for (const WorkerAddress& worker : list) {
    WorkerLink& link = links_[worker.id];
    if (link.place) continue;
    by_number_[worker.id] = &link;
    link.where = worker;
    // Dispatchers list no worker that drains. If the list is older than the drain, the worker says
    // so on its present stream, or on its next one.
    if (!before.contains(worker.id) || link.stream.id == 0) link.drains = false;
    link.place = members_.size();
    members_.push_back(&link);
  }
  for (auto& [id, link] : links_) link.chosen = link.chosen && link.place.has_value();
  FindConnected();
}

void WorkerBook::FindConnected() {
  connected_.clear();
  for (WorkerLink* const link : open_) {
    if (link->place) connected_.push_back(link);
  }
  std::sort(connected_.begin(), connected_.end(),
            [](const WorkerLink* a, const WorkerLink* b) { return *a->place < *b->place; });
}

WorkerLink* WorkerBook::Find(WorkerId worker) {
  const auto it = by_number_.find(worker);
  return it == by_number_.end() ? nullptr : it->second;
}

const WorkerLink* WorkerBook::Find(WorkerId worker) const {
  const auto it = by_number_.find(worker);
  return it == by_number_.end() ? nullptr : it->second;
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
  open_.push_back(&link);
  FindConnected();
}

void WorkerBook::Closed(WorkerLink& link) {
  if (streams_.erase(link.stream.id) == 0) return;
  std::erase(open_, &link);
  std::erase(connected_, &link);
  link.stream = {};
}

void WorkerBook::Failed(WorkerLink& link, std::string reason, Time now) {
  const auto longer =
      std::min<std::size_t>(static_cast<std::size_t>(link.failures++), kBackoff.size() - 1);
  link.failing_until = now + kBackoff[longer];
  link.reason = std::move(reason);
}

void WorkerBook::Proved(WorkerLink& link) {
  link.failures = 0;
  link.failing_until = {};
}

void WorkerBook::ForgetDead(Time now) {
  for (auto& [id, link] : links_) {
    if (link.place || link.stream.id != 0 || link.used == Time{}) link.used = now;
  }
  std::erase_if(links_, [this, now](const auto& entry) {
    const WorkerLink& link = entry.second;
    if (now - link.used < kForgetUnused || !link.tried.empty() || link.refusal) return false;
    by_number_.erase(entry.first);
    return true;
  });
}

void WorkerBook::Refused(WorkerLink& link, const Status& why, std::uint64_t until) {
  if (link.refusal) {
    until = std::max(until, link.refusal->until);
  } else {
    ++refusals_;
  }
  link.refusal = WorkerLink::Refusal{why.code(), why.message(), until};
}

void WorkerBook::Tried(WorkerLink& link, std::uint64_t step, const std::string& why) {
  if (link.tried.emplace(step, why).second) ++tried_by_[step];
}

std::size_t WorkerBook::TriedBy(std::uint64_t step) const {
  const auto found = tried_by_.find(step);
  return found == tried_by_.end() ? 0 : found->second;
}

void WorkerBook::MarkStale(bool urgent) {
  for (WorkerLink* const link : open_) {
    link->stream.stale = true;
    link->stream.urgent = link->stream.urgent || urgent;
  }
}

void WorkerBook::ForgetRefusals(std::uint64_t next) {
  if (refusals_ == 0 && tried_by_.empty()) return;
  tried_by_.erase(tried_by_.begin(), tried_by_.lower_bound(next));
  for (auto& [id, link] : links_) {
    if (link.refusal && link.refusal->until <= next) {
      link.refusal.reset();
      --refusals_;
    }
    link.tried.erase(link.tried.begin(), link.tried.lower_bound(next));
  }
}

}  // namespace millrace::client
