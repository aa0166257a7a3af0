#include "server/kinds/coq/index/index_writer.h"

#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "common/base/hash.h"
#include "common/system/errno_status.h"
#include "server/files/file_identity.h"
#include "server/files/mapped_file.h"

namespace millrace {
namespace {

std::uint64_t Aligned(std::uint64_t offset) {
  return (offset + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

}  // namespace

IndexWriter::IndexWriter(std::filesystem::path path, FileDescriptor file)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp"), file_(std::move(file)) {}

IndexWriter::IndexWriter(IndexWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)),
      table_(std::move(other.table_)),
      file_bytes_(other.file_bytes_) {}

IndexWriter::~IndexWriter() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
}

Result<IndexWriter> IndexWriter::Create(const std::filesystem::path& path,
                                        const SectionCounts& counts) {
  MILLRACE_ASSIGN_OR_RETURN(FileDescriptor file, ReplaceFile(path.string() + ".tmp"));
  IndexWriter writer(path, std::move(file));
  std::uint64_t offset = Aligned(sizeof(IndexHeader) + kIndexSections * sizeof(SectionEntry));
  for (std::size_t s = 0; s < kIndexSections; ++s) {
    const auto section = static_cast<IndexSection>(s + 1);
    writer.table_.push_back({.section = section,
                             .entry_bytes = IndexEntryBytes(section),
                             .offset = offset,
                             .count = counts[s],
                             .checksum = 0});
    offset = Aligned(offset + counts[s] * IndexEntryBytes(section));
  }
  writer.file_bytes_ = offset;
  // Disk space is reserved before anything is written, so that a full disk shows at once and not at
  // the end.
  if (const int error = ::posix_fallocate(writer.file_.get(), 0, static_cast<off_t>(offset))) {
    return ErrnoStatus(
        "no room for an index of " + std::to_string(offset) + " bytes at " + path.string(), error);
  }
  return writer;
}

Status IndexWriter::WriteBytes(IndexSection section, std::uint64_t offset,
                               std::span<const std::byte> bytes) {
  const SectionEntry& entry = table_[static_cast<std::size_t>(section) - 1];
  return WriteAt(file_, bytes, entry.offset + offset).WithContext(temporary_.string());
}

Status IndexWriter::FillChecksums() {
  Result<MappedFile> mapped = MappedFile::Open(temporary_, AccessPattern::kSequential);
  if (!mapped.ok()) return mapped.status().WithContext(temporary_.string());
  for (SectionEntry& entry : table_) {
    entry.checksum =
        Xxh3_64(mapped->bytes().subspan(entry.offset, entry.count * entry.entry_bytes));
  }
  return OkStatus();
}

Result<std::uint64_t> IndexWriter::Finish(const IndexIdentity& identity) {
  MILLRACE_RETURN_IF_ERROR(FillChecksums());
  IndexHeader header{};
  std::memcpy(header.magic, kIndexMagic, sizeof(kIndexMagic));
  header.version = kIndexVersion;
  header.section_count = kIndexSections;
  header.file_bytes = file_bytes_;
  header.dataset_digest_high = identity.dataset_digest.high;
  header.dataset_digest_low = identity.dataset_digest.low;
  header.host_id_high = identity.host_id.high;
  header.host_id_low = identity.host_id.low;
  header.nodes = identity.nodes;
  header.edges = identity.edges;
  header.checksum = HeaderChecksum(header, table_);
  Status status = WriteAt(file_, std::as_bytes(std::span(table_)), sizeof(header));
  if (status.ok()) status = WriteAt(file_, std::as_bytes(std::span(&header, 1)), 0);
  if (status.ok()) status = SyncFile(file_);
  if (!status.ok()) return status.WithContext(temporary_.string());
  return file_bytes_;
}

Status IndexWriter::Publish() {
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) {
    return ErrnoStatus(temporary_.string() + " cannot be renamed to " + path_.string(),
                       error.value());
  }
  temporary_.clear();
  const auto folder = path_.parent_path();
  return SyncFolder(folder.empty() ? "." : folder);
}

}  // namespace millrace
