// How a disk cache begins and finishes segments.
#include <utility>

#include "server/plan/cache/disk_cache.h"

namespace millrace {

std::optional<DiskCache::Reserved> DiskCache::Reserve(const Digest128& key, std::uint64_t bytes) {
  const MutexLock lock(writer_mutex_);
  // A key leaves being_written_ after it is in the index. So it is seen in one of them.
  if (being_written_.contains(key) || IsKnown(key)) return std::nullopt;
  std::optional<Reserved> reserved = ReserveInSegment(bytes);
  if (reserved.has_value()) being_written_.insert(key);
  return reserved;
}

std::optional<DiskCache::Reserved> DiskCache::ReserveInSegment(std::uint64_t bytes) {
  if (writer_ != nullptr) {
    std::optional<std::uint64_t> offset;
    {
      const MutexLock table_lock(mutex_);
      const Segment* const segment = table_.Find(writer_->number());
      // Otherwise somebody has removed the file.
      if (segment != nullptr && segment->name == writer_->name()) offset = writer_->Reserve(bytes);
    }
    if (offset.has_value()) return Reserved{writer_, *offset};
    writer_->Close();
    FinishSegment(*writer_);
    writer_ = nullptr;
  }
  const Status begun = BeginSegment();
  if (!begun.ok()) {
    WriteFailed(begun);
    return std::nullopt;
  }
  const std::optional<std::uint64_t> offset = writer_->Reserve(bytes);
  if (!offset.has_value()) return std::nullopt;
  return Reserved{writer_, *offset};
}

Status DiskCache::BeginSegment() {
  MILLRACE_RETURN_IF_ERROR(ScanFolder());
  // Somebody else may have filled the disk. A segment less may make room for the next one.
  if (disk_full_.exchange(false)) static_cast<void>(RemoveOldest());
  MILLRACE_RETURN_IF_ERROR(MakeRoom(options_.segment_bytes));
  const std::string name = SegmentName(owner_, next_file_++);
  Result<FileDescriptor> created = CreateSegment(name);
  if (!created.ok() && created.status().code() == StatusCode::kNotFound) {
    MILLRACE_RETURN_IF_ERROR(files_->MakeFolder(options_.folder));
    created = CreateSegment(name);
  }
  if (!created.ok()) return created.status();
  auto file = std::make_shared<const FileDescriptor>(*std::move(created));
  paused_until_ = 0;
  const MutexLock lock(mutex_);
  // A scan by another thread may have found the file already.
  if (const Segment* const found = table_.Find(name)) table_.Drop(found->number);
  Segment* const segment = table_.Add(name, options_.segment_bytes, NextUse());
  if (segment == nullptr) return ResourceExhausted("no number is left for a segment");
  segment->writing = true;
  table_.KeepOpen(*segment, file);
  writer_ = std::make_shared<SegmentWriter>(segment->number, name, std::move(file),
                                            options_.segment_bytes);
  return OkStatus();
}

Result<FileDescriptor> DiskCache::CreateSegment(const std::string& name) {
  const std::filesystem::path path = PathOf(name);
  const std::filesystem::path unfinished = path.string() + std::string(kNewSegmentEnding);
  MILLRACE_ASSIGN_OR_RETURN(FileDescriptor file, files_->Create(unfinished));
  const SegmentHeader header = MakeSegmentHeader();
  Status made = files_->Write(file, std::as_bytes(std::span(&header, 1)), 0);
  if (made.ok()) made = files_->Rename(unfinished, path);
  if (!made.ok()) {
    static_cast<void>(files_->Remove(unfinished));
    return made.WithContext(unfinished.string());
  }
  return file;
}

void DiskCache::FinishSegment(const SegmentWriter& writer) {
  if (!writer.IsDone()) return;
  std::uint64_t bytes = writer.end();
  if (!writer.failed()) {
    const std::string end = MakeSegmentEnd(writer.entries());
    const Status written =
        files_->Write(writer.file(), std::as_bytes(std::span(end)), writer.end());
    if (written.ok()) {
      bytes += end.size();
    } else {
      WriteFailed(written.WithContext(writer.name()));
    }
  }
  const MutexLock lock(mutex_);
  Segment* const segment = table_.Find(writer.number());
  if (segment == nullptr || segment->name != writer.name()) return;
  segment->writing = false;
  segment->touch = true;
  segment->read_to = bytes;
  table_.Resize(*segment, bytes);
}

}  // namespace millrace
