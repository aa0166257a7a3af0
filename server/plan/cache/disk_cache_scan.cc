// How a disk cache follows what is in its folder, and keeps it within the limit.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "server/plan/cache/disk_cache.h"
#include "server/plan/cache/segment_reader.h"

namespace millrace {
namespace {

/// A process that begins a segment needs its unfinished file for much less time.
constexpr std::int64_t kUnfinishedNs = 3600 * kNanosecondsASecond;

bool IsUnfinished(const std::string& name) {
  const std::string_view text = name;
  return text.ends_with(kNewSegmentEnding) &&
         IsSegmentName(text.substr(0, text.size() - kNewSegmentEnding.size()));
}

}  // namespace

void DiskCache::Scan() {
  const Status scanned = ScanFolder();
  if (!scanned.ok()) ReadFailed(scanned);
}

Status DiskCache::ScanFolder() {
  if (scanning_.exchange(true)) return OkStatus();  // another thread does it
  TouchUsed();
  std::uint32_t known_before = 0;
  {
    const MutexLock lock(mutex_);
    if (!table_.HasNumbers()) {
      table_.Clear();
      index_.Clear();
    }
    known_before = table_.next_number();
  }
  Result<std::vector<CacheFiles::Found>> listed = files_->List(options_.folder);
  if (listed.ok() || listed.status().code() == StatusCode::kNotFound) {
    std::vector<CacheFiles::Found> found;
    if (listed.ok()) found = *listed;
    for (const CacheFiles::Found& file : found) {
      const bool is_old =
          file.modified_ns + kUnfinishedNs < clock_->UnixSeconds() * kNanosecondsASecond;
      if (is_old && IsUnfinished(file.name)) static_cast<void>(files_->Remove(PathOf(file.name)));
    }
    std::erase_if(found, [](const CacheFiles::Found& file) { return !IsSegmentName(file.name); });
    ForgetMissing(found, known_before);
    // If there is not enough memory for the index, the newest records are in it.
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return std::pair(a.modified_ns, a.name) > std::pair(b.modified_ns, b.name);
    });
    for (const CacheFiles::Found& file : found) LoadFile(file);
    const Status room = MakeRoom(0);
    if (!room.ok() && room.code() != StatusCode::kResourceExhausted) WriteFailed(room);
  }
  scanning_ = false;
  if (listed.ok() || listed.status().code() == StatusCode::kNotFound) return OkStatus();
  // Never ResourceExhausted: without a descriptor for the folder, the disk is not full.
  return Unavailable(listed.status().message());
}

void DiskCache::TouchUsed() {
  std::vector<std::pair<std::string, std::int64_t>> used;
  {
    const MutexLock lock(mutex_);
    for (auto& [number, segment] : table_.all()) {
      if (std::exchange(segment.touch, false)) used.emplace_back(segment.name, segment.used_ns);
    }
  }
  // In a folder that cannot be written, nothing can be removed either, so times do not matter.
  for (const auto& [name, ns] : used) static_cast<void>(files_->SetModified(PathOf(name), ns));
}

std::int64_t DiskCache::UseOfFile(const CacheFiles::Found& file) {
  const std::int64_t used_ns =
      std::min(file.modified_ns, (clock_->UnixSeconds() + 1) * kNanosecondsASecond);
  last_use_ns_ = std::max(last_use_ns_, used_ns);
  return used_ns;
}

void DiskCache::ForgetMissing(const std::vector<CacheFiles::Found>& found,
                              std::uint32_t known_before) {
  std::unordered_set<std::string_view> names;
  for (const CacheFiles::Found& file : found) names.insert(file.name);
  const MutexLock lock(mutex_);
  std::vector<std::uint32_t> missing;
  for (const auto& [number, segment] : table_.all()) {
    if (number < known_before && !names.contains(segment.name)) missing.push_back(number);
  }
  for (const std::uint32_t number : missing) table_.Drop(number);
}

void DiskCache::LoadFile(const CacheFiles::Found& file) {
  {
    const MutexLock lock(mutex_);
    const std::int64_t used_ns = UseOfFile(file);
    Segment* segment = table_.Find(file.name);
    if (segment == nullptr) {
      segment = table_.Add(file.name, file.bytes, used_ns);
      if (segment == nullptr) return;
      segment->unread = true;
    } else if (segment->writing) {
      return;
    } else {
      const bool grew = file.bytes > segment->read_to && file.bytes != segment->bytes;
      segment->used_ns = std::max(segment->used_ns, used_ns);
      table_.Resize(*segment, file.bytes);
      if (!segment->unread && (!grew || segment->forgotten)) return;
    }
  }
  Result<FileDescriptor> opened = files_->Open(PathOf(file.name));
  Status header = opened.status();
  if (opened.ok()) header = ReadSegmentHeader(*files_, *opened);
  if (header.ok() && file.bytes > kMaxSegmentBytes) header = DataLoss("too large for a segment");
  const bool is_bad =
      header.code() == StatusCode::kDataLoss || header.code() == StatusCode::kFailedPrecondition;
  const bool was_removed = header.code() == StatusCode::kNotFound;  // by another process
  const bool is_gone = was_removed || (is_bad && files_->Remove(PathOf(file.name)).ok());
  if (!header.ok() && !was_removed) {
    ReadFailed(header.WithContext(file.name + (is_gone ? " was removed" : "")));
  }
  {
    const MutexLock lock(mutex_);
    Segment* const segment = table_.Find(file.name);
    if (segment == nullptr) return;
    if (is_gone) table_.Drop(segment->number);
    if (!header.ok()) return;
    segment->unread = false;
  }
  LoadRecords(file.name, file.bytes, *opened);
}

void DiskCache::LoadRecords(const std::string& name, std::uint64_t bytes,
                            const FileDescriptor& file) {
  std::uint64_t from = 0;
  std::uint32_t number = 0;
  {
    const MutexLock lock(mutex_);
    const Segment* const segment = table_.Find(name);
    if (segment == nullptr || segment->writing) return;
    number = segment->number;
    from = segment->read_to;
  }
  const Result<SegmentRecords> records = ReadSegmentRecords(*files_, file, bytes, from);
  if (!records.ok()) {
    ReadFailed(records.status().WithContext(name));
    return;
  }
  bool has_room = true;
  for (const SegmentEntry& entry : records->entries) {
    has_room = Insert({entry.key_high, entry.key_low}, {number, entry.place, entry.length});
    if (!has_room) break;
  }
  const MutexLock lock(mutex_);
  Segment* const segment = table_.Find(number);
  if (segment == nullptr) return;
  segment->read_to = records->end;
  if (!has_room) segment->forgotten = true;
}

Status DiskCache::MakeRoom(std::uint64_t bytes) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (bytes <= options_.limit_bytes && table_.bytes() <= options_.limit_bytes - bytes) {
        return OkStatus();
      }
    }
    MILLRACE_RETURN_IF_ERROR(RemoveOldest());
  }
}

Status DiskCache::RemoveOldest() {
  std::string name;
  {
    const MutexLock lock(mutex_);
    const Segment* const oldest = table_.Oldest(true);
    if (oldest == nullptr) return ResourceExhausted("the limit has no room for another segment");
    name = oldest->name;
  }
  const Status removed = files_->Remove(PathOf(name));
  if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  if (removed.ok()) ++evictions_;
  const MutexLock lock(mutex_);
  if (const Segment* const segment = table_.Find(name)) table_.Drop(segment->number);
  return OkStatus();
}

}  // namespace millrace
