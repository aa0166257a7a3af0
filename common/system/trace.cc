#include "common/system/trace.h"

#include <unistd.h>

#include <algorithm>

namespace millrace {

void Tracer::Record(const Span& span) {
  if (!on() || span.begin == Time{}) return;
  const Time end = span.end == Time{} ? clock_->Now() : span.end;
  MutexLock lock(mutex_);
  Keep(span, end);
}

void Tracer::RecordNamed(Span span, std::string_view name) {
  if (!on() || span.begin == Time{}) return;
  MutexLock lock(mutex_);
  span.detail = NumberOf(name);
  Keep(span, span.end);
}

std::uint32_t Tracer::NumberOf(std::string_view name) {
  auto known = std::find(names_.begin(), names_.end(), name);
  if (known == names_.end()) {
    if (names_.size() + 1 < kMostNames) {
      names_.emplace_back(name);
    } else if (names_.size() < kMostNames) {
      names_.emplace_back("others");
    }
    known = names_.end() - 1;
  }
  return static_cast<std::uint32_t>(known - names_.begin());
}

void Tracer::Keep(const Span& span, Time end) {
  if (end > until_) on_.store(false, std::memory_order_relaxed);
  if (!on() || span.begin < from_) return;
  const bool full = size_ == capacity_;
  std::size_t place = first_ + (full ? 0 : size_);
  if (place >= capacity_) place -= capacity_;
  ring_[place] = span;
  ring_[place].end = end;
  if (!full) {
    ++size_;
  } else {
    first_ = first_ + 1 == capacity_ ? 0 : first_ + 1;
    ++dropped_;
  }
}

void Tracer::Start(std::uint64_t trace, Time until) {
  MutexLock lock(mutex_);
  if (trace != trace_) {
    trace_ = trace;
    from_ = clock_->Now();
    ring_.resize(capacity_);
    first_ = size_ = 0;
    dropped_ = 0;
    names_.clear();
  }
  until_ = until;
  // A late request must not start a trace again that has been taken to its end already.
  on_.store(!ring_.empty() && until > clock_->Now(), std::memory_order_relaxed);
}

Tracer::Taken Tracer::Take(std::size_t most) {
  MutexLock lock(mutex_);
  Taken taken;
  if (ring_.empty()) return taken;
  if (clock_->Now() >= until_) on_.store(false, std::memory_order_relaxed);
  taken.trace = trace_;
  taken.dropped = dropped_;
  taken.names = names_;
  const std::size_t count = std::min(size_, most);
  taken.spans.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    taken.spans.push_back(ring_[first_]);
    first_ = first_ + 1 == capacity_ ? 0 : first_ + 1;
  }
  size_ -= count;
  taken.done = !on() && size_ == 0;
  if (taken.done) std::vector<Span>().swap(ring_);
  return taken;
}

std::uint32_t Tracer::ThreadLane() { return static_cast<std::uint32_t>(gettid()); }

}  // namespace millrace
