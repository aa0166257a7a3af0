#include "server/plan/cache/segment_table.h"

#include <utility>

namespace millrace {

Segment* SegmentTable::Add(const std::string& name, std::uint64_t bytes, std::int64_t used_ns) {
  if (!HasNumbers()) return nullptr;
  Segment& segment = segments_[next_];
  segment.number = next_++;
  segment.name = name;
  segment.bytes = bytes;
  segment.used_ns = used_ns;
  numbers_[name] = segment.number;
  bytes_ += bytes;
  return &segment;
}

void SegmentTable::Drop(std::uint32_t number) {
  const auto found = segments_.find(number);
  if (found == segments_.end()) return;
  bytes_ -= found->second.bytes;
  numbers_.erase(found->second.name);
  segments_.erase(found);
}

void SegmentTable::Clear() {
  segments_.clear();
  numbers_.clear();
  open_.clear();
  bytes_ = 0;
  next_ = 1;
}

Segment* SegmentTable::Find(std::uint32_t number) {
  const auto found = segments_.find(number);
  return found == segments_.end() ? nullptr : &found->second;
}

Segment* SegmentTable::Find(const std::string& name) {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? nullptr : Find(found->second);
}

Segment* SegmentTable::Oldest(bool for_removal) {
  Segment* oldest = nullptr;
  for (auto& [number, segment] : segments_) {
    if (for_removal ? segment.writing : segment.forgotten || segment.unread) continue;
    if (oldest == nullptr ||
        std::pair(segment.used_ns, number) < std::pair(oldest->used_ns, oldest->number)) {
      oldest = &segment;
    }
  }
  return oldest;
}

void SegmentTable::Resize(Segment& segment, std::uint64_t bytes) {
  bytes_ = bytes_ - segment.bytes + bytes;
  segment.bytes = bytes;
}

void SegmentTable::KeepOpen(Segment& segment, std::shared_ptr<const FileDescriptor> file) {
  if (segment.file == nullptr) open_.push_back(segment.number);
  segment.file = std::move(file);
  while (open_.size() > open_files_) {
    Segment* const first = Find(open_.front());
    open_.pop_front();
    if (first != nullptr) first->file = nullptr;
  }
}

LiveSegments SegmentTable::Live() const {
  LiveSegments live(next_);
  for (const auto& [number, segment] : segments_)
    live[number] = !segment.forgotten && !segment.unread;
  return live;
}

}  // namespace millrace
