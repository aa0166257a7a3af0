#include "client/session/machine/lease_book.h"

#include <algorithm>

namespace millrace::client {

void LeaseBook::Add(const Lease& lease, std::uint64_t first_step) {
  leases_[lease.id] = {lease, first_step, first_step, first_step + lease.shard.batches, 0};
}

HeldLease* LeaseBook::Find(Number lease) {
  const auto it = leases_.find(lease);
  return it == leases_.end() ? nullptr : &it->second;
}

std::size_t LeaseBook::LapseOf(Number worker) {
  std::size_t lapsed = 0;
  for (auto& [id, held] : leases_) {
    if (held.lease.worker.id != worker || !held.lacks()) continue;
    Trim(held, 0);
    ++lapsed;
  }
  return lapsed;
}

bool LeaseBook::Cut(std::uint64_t next, const std::function<bool(std::uint64_t)>& is_held) {
  bool over = false;
  for (auto& [id, held] : leases_) {
    if (!held.lacks()) continue;
    held.first = std::max(held.first, std::min(next, held.end));
    while (held.lacks() && is_held(held.first)) ++held.first;
    over = over || !held.lacks();
  }
  // A lease that lapsed before any of its batches came ends where it begins, and is over too.
  const auto is_over = [next](const auto& entry) {
    return entry.second.end <= std::max(next, entry.second.shard_first);
  };
  return std::erase_if(leases_, is_over) > 0 || over;
}

const std::vector<HeldLease*>& LeaseBook::ByNeed() {
  by_need_.clear();
  for (auto& [id, held] : leases_) {
    if (held.lacks()) by_need_.push_back(&held);
  }
  const auto before = [](const HeldLease* a, const HeldLease* b) {
    if (a->first != b->first) return a->first < b->first;
    if (a->lease.copy != b->lease.copy) return b->lease.copy;
    return a->lease.id < b->lease.id;
  };
  // Leases mostly come in order of need already.
  if (!std::is_sorted(by_need_.begin(), by_need_.end(), before)) {
    std::sort(by_need_.begin(), by_need_.end(), before);
  }
  return by_need_;
}

void LeaseBook::GiveRoom(std::uint64_t window_end, std::uint64_t slots) {
  std::uint64_t covered = 0;
  for (auto& [id, held] : leases_) held.room = 0;
  for (HeldLease* held : ByNeed()) {
    if (held->first < covered) {
      held->room = held->lease.copy && held->first < window_end ? 1 : 0;
    } else {
      const std::uint64_t end = std::min(held->end, window_end);
      held->room = end > held->first ? std::min(end - held->first, slots) : 0;
      slots -= held->room;
    }
    covered = std::max(covered, held->end);
  }
}

std::pair<std::uint64_t, std::uint64_t> LeaseBook::FirstGap(
    std::uint64_t from, std::uint64_t end,
    const std::function<bool(std::uint64_t)>& is_held) const {
  const auto covered_until = [this](std::uint64_t step) {
    std::uint64_t until = step;
    for (const auto& [id, held] : leases_) {
      if (held.first <= step && step < held.end) until = std::max(until, held.end);
    }
    return until;
  };
  while (from < end) {
    if (is_held(from)) {
      ++from;
    } else if (const std::uint64_t until = covered_until(from); until > from) {
      from = until;
    } else {
      break;
    }
  }
  if (from >= end) return {end, end};
  for (const auto& [id, held] : leases_) {
    if (held.lacks() && held.first > from) end = std::min(end, held.first);
  }
  std::uint64_t last = from + 1;
  while (last < end && !is_held(last)) ++last;
  return {from, last};
}

const HeldLease* LeaseBook::Covering(std::uint64_t step) const {
  const HeldLease* best = nullptr;
  for (const auto& [id, held] : leases_) {
    if (step < held.first || step >= held.end) continue;
    if (best == nullptr || held.room > best->room) best = &held;
  }
  return best;
}

}  // namespace millrace::client
