// Values that were used last, by their numbers, within a limit of bytes. A value that several
// threads want at once is made by one of them; the others wait for it.
//
// The value that was used last is always kept, whatever it has: otherwise values above the limit
// would be made again for each use.
//
// Thread-safe. Values that somebody holds may outlive the cache.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "common/base/result.h"
#include "common/system/mutex.h"

namespace millrace {

struct RecentValuesStats {
  std::uint64_t found = 0;
  std::uint64_t made = 0;  // also those that could not be made
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;  // with what the cache needs for each
};

/// `Value` has `bytes()`, its memory without the object itself.
template <class Value>
class RecentValues {
 public:
  using Pointer = std::shared_ptr<const Value>;

  explicit RecentValues(std::uint64_t limit_bytes) : limit_(limit_bytes) {}
  RecentValues(const RecentValues&) = delete;
  RecentValues& operator=(const RecentValues&) = delete;

  /// The value of a number. If it is not there, `make()` makes it, a Result<Pointer> that is not
  /// null, while no lock is held. An error is not kept. `make` must not throw.
  template <class Make>
  Result<Pointer> Get(std::uint64_t number, const Make& make) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (true) {
      const auto [found, is_new] = entries_.try_emplace(number);
      if (is_new) break;
      Entry& entry = found->second;
      if (entry.value != nullptr) {
        ++stats_.found;
        order_.splice(order_.begin(), order_, entry.place);
        return entry.value;
      }
      made_.Wait(mutex_);  // another thread is making it
    }
    ++stats_.made;
    lock.Unlock();
    Result<Pointer> made = make();
    lock.Lock();
    made_.NotifyAll();
    if (!made.ok()) {
      entries_.erase(number);
      return made;
    }
    Keep(number, *made);
    return made;
  }

  RecentValuesStats stats() const MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    RecentValuesStats stats = stats_;
    stats.values = order_.size();
    return stats;
  }

 private:
  struct Entry {
    Pointer value;  // null: a thread is making it
    std::list<std::uint64_t>::iterator place{};
  };

  static std::uint64_t Charge(const Value& value) {
    constexpr std::uint64_t kOfAnEntry = 160;  // of the table and the list, about
    return value.bytes() + sizeof(Value) + kOfAnEntry;
  }

  /// Keeps a value whose entry waits for it, and removes those that were not used for longest.
  void Keep(std::uint64_t number, const Pointer& value) MILLRACE_REQUIRES(mutex_) {
    order_.push_front(number);
    entries_[number] = {value, order_.begin()};
    stats_.bytes += Charge(*value);
    while (stats_.bytes > limit_ && order_.size() > 1) {
      const auto oldest = entries_.find(order_.back());
      stats_.bytes -= Charge(*oldest->second.value);
      entries_.erase(oldest);
      order_.pop_back();
    }
  }

  const std::uint64_t limit_;
  mutable Mutex mutex_;
  CondVar made_;
  std::unordered_map<std::uint64_t, Entry> entries_ MILLRACE_GUARDED_BY(mutex_);
  std::list<std::uint64_t> order_ MILLRACE_GUARDED_BY(mutex_);  // the last used comes first
  RecentValuesStats stats_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
