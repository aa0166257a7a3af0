#include "server/plan/cache/disk_cache.h"

#include <algorithm>
#include <random>
#include <utility>

namespace millrace {
namespace {

std::uint64_t RandomNumber() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

DiskCacheOptions Completed(DiskCacheOptions options) {
  const std::uint64_t least = std::min(std::uint64_t{4} << 20, options.limit_bytes / 4);
  constexpr std::uint64_t kMost = std::uint64_t{64} << 20;
  std::uint64_t& bytes = options.segment_bytes;
  if (bytes == 0) bytes = std::clamp(options.limit_bytes / 16, least, kMost);
  bytes = std::min({bytes, options.limit_bytes, kMaxSegmentBytes});
  options.segment_numbers = std::min(options.segment_numbers, kMaxSegmentNumber);
  options.open_files = std::max<std::size_t>(options.open_files, 1);
  return options;
}

}  // namespace

DiskCache::DiskCache(DiskCacheOptions options, std::shared_ptr<CacheFiles> files,
                     std::shared_ptr<const Clock> clock, std::shared_ptr<Logger> logger)
    : options_(Completed(std::move(options))),
      files_(std::move(files)),
      clock_(std::move(clock)),
      owner_(RandomNumber()),
      read_warning_(clock_, logger),
      write_warning_(clock_, std::move(logger)),
      index_(options_.index_bytes, RandomNumber()),
      table_(options_.segment_numbers, options_.open_files) {}

DiskCache::~DiskCache() {
  {
    const MutexLock lock(writer_mutex_);
    if (writer_ != nullptr) {
      writer_->Close();
      FinishSegment(*writer_);
    }
  }
  TouchUsed();
}

ExamplePtr DiskCache::Find(const Digest128& key) {
  if ((lookups_.fetch_add(1) + 1) % kLookupsAScan == 0) Scan();
  const std::optional<RecordPlace> place = index_.Find(key);
  if (!place.has_value()) return nullptr;
  ExamplePtr value = Read(key, *place);
  if (value != nullptr) {
    ++hits_;
  } else {
    index_.Erase(key, *place);
  }
  return value;
}

ExamplePtr DiskCache::Read(const Digest128& key, const RecordPlace& place) {
  const std::shared_ptr<const FileDescriptor> file = OpenSegment(place.segment);
  if (file == nullptr) return nullptr;
  auto value = std::make_shared<ExampleBytes>(place.length * kCacheUnit);
  const Status read = files_->Read(*file, value->memory(), place.place * kCacheUnit);
  if (!read.ok()) {
    ReadFailed(read.WithContext("a record"));
    return nullptr;
  }
  const Result<std::size_t> size = CheckRecord(key, value->memory());
  if (!size.ok()) {
    ReadFailed(size.status());
    return nullptr;
  }
  value->Narrow(sizeof(RecordHeader), *size);
  return value;
}

std::shared_ptr<const FileDescriptor> DiskCache::OpenSegment(std::uint32_t number) {
  std::string name;
  {
    const MutexLock lock(mutex_);
    Segment* const segment = table_.Find(number);
    if (segment == nullptr || segment->forgotten) return nullptr;
    segment->used_ns = NextUse();
    segment->touch = true;
    if (segment->file != nullptr) return segment->file;
    name = segment->name;
  }
  Result<FileDescriptor> opened = files_->Open(PathOf(name));
  const MutexLock lock(mutex_);
  Segment* const segment = table_.Find(number);
  const bool is_same = segment != nullptr && segment->name == name;
  if (!opened.ok()) {
    if (opened.status().code() != StatusCode::kNotFound) {
      ReadFailed(opened.status());
    } else if (is_same && !segment->writing) {
      table_.Drop(number);  // another process has removed it
    }
    return nullptr;
  }
  auto file = std::make_shared<const FileDescriptor>(*std::move(opened));
  if (is_same) table_.KeepOpen(*segment, file);
  return file;
}

void DiskCache::Add(const Digest128& key, std::span<const std::byte> value) {
  const bool too_large =
      value.size() > kMaxRecordBytes ||
      RecordBytes(value.size()) > SegmentWriter::LargestRecord(options_.segment_bytes);
  if (too_large) {
    ++skipped_;
    return;
  }
  if (IsKnown(key)) return;
  const Duration::rep paused = paused_until_;
  if (paused != 0 && clock_->Now().since_boot.count() < paused) {
    ++skipped_;
    return;
  }
  const std::size_t bytes = RecordBytes(value.size());
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  const std::span<std::byte> record(memory.get(), bytes);
  WriteRecord(key, value, record);
  const std::optional<Reserved> reserved = Reserve(key, bytes);
  if (!reserved.has_value()) return;
  SegmentWriter& writer = *reserved->writer;
  const Status written = files_->Write(writer.file(), record, reserved->offset);
  const SegmentEntry entry = {key.high, key.low,
                              static_cast<std::uint32_t>(reserved->offset / kCacheUnit),
                              static_cast<std::uint32_t>(record.size() / kCacheUnit)};
  if (written.ok()) {
    ++writes_;
    static_cast<void>(Insert(key, {writer.number(), entry.place, entry.length}));
  } else {
    WriteFailed(written.WithContext("a record"));
  }
  const MutexLock lock(writer_mutex_);
  being_written_.erase(key);
  if (written.ok()) {
    writer.Wrote(entry);
  } else {
    writer.Lost();
    writer.Close();
    if (writer_ == reserved->writer) writer_ = nullptr;
  }
  FinishSegment(writer);
}

bool DiskCache::IsKnown(const Digest128& key) {
  const std::optional<RecordPlace> place = index_.Find(key);
  if (!place.has_value()) return false;
  const MutexLock lock(mutex_);
  const Segment* const segment = table_.Find(place->segment);
  return segment != nullptr && !segment->forgotten;
}

bool DiskCache::Insert(const Digest128& key, const RecordPlace& place) {
  while (!index_.Insert(key, place)) {
    LiveSegments live;
    {
      const MutexLock lock(mutex_);
      live = table_.Live();
    }
    if (!index_.MakeRoom(key, live) && !ForgetOldest(place.segment)) return false;
  }
  return true;
}

bool DiskCache::ForgetOldest(std::uint32_t except) {
  const MutexLock lock(mutex_);
  Segment* const oldest = table_.Oldest(false);
  if (oldest == nullptr || oldest->number == except) return false;
  oldest->forgotten = true;
  return true;
}

std::int64_t DiskCache::NextUse() {
  last_use_ns_ = std::max(last_use_ns_ + 1, clock_->UnixSeconds() * kNanosecondsASecond);
  return last_use_ns_;
}

void DiskCache::ReadFailed(const Status& status) {
  ++failures_;
  read_warning_.Warn("cached examples cannot be read",
                     status.WithContext(options_.folder.string()));
}

void DiskCache::WriteFailed(const Status& status) {
  ++failures_;
  if (status.code() == StatusCode::kResourceExhausted) disk_full_ = true;
  paused_until_ = (clock_->Now() + kPause).since_boot.count();
  write_warning_.Warn("examples cannot be cached on disk",
                      status.WithContext(options_.folder.string()));
}

DiskCacheStats DiskCache::stats() const {
  DiskCacheStats stats;
  stats.hits = hits_;
  const std::uint64_t lookups = lookups_;
  stats.misses = lookups > stats.hits ? lookups - stats.hits : 0;
  stats.writes = writes_;
  stats.skipped = skipped_;
  stats.failures = failures_;
  stats.evictions = evictions_;
  stats.limit_bytes = options_.limit_bytes;
  stats.index_bytes = index_.bytes();
  const MutexLock lock(mutex_);
  stats.segments = table_.size();
  stats.bytes = table_.bytes();
  return stats;
}

}  // namespace millrace
