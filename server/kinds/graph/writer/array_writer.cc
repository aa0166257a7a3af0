#include "server/kinds/graph/writer/array_writer.h"

#include <system_error>
#include <utility>

#include <fcntl.h>

#include <fmt/format.h>

#include "common/system/errno_status.h"
#include "server/files/npy_header.h"

namespace millrace {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

}  // namespace

Result<ArrayWriter> ArrayWriter::Create(const std::filesystem::path& dir, std::string path,
                                        ArrayType type) {
  const std::filesystem::path file = dir / path;
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) {
    return ErrnoStatus("folder " + file.parent_path().string() + " cannot be made", error.value());
  }
  MILLRACE_ASSIGN_OR_RETURN(FileDescriptor opened,
                            OpenFile(file, O_WRONLY | O_CREAT | O_EXCL, Readers::kUmask));
  const std::string header = MakeNpyHeader(type);
  ArrayRecord record{.path = std::move(path),
                     .type = std::move(type),
                     .offset = header.size(),
                     .bytes = 0,
                     .xxh3 = {}};
  ArrayWriter writer(std::move(opened), file.string(), std::move(record));
  MILLRACE_RETURN_IF_ERROR(writer.AppendBytes(std::as_bytes(std::span(header))));
  return writer;
}

Status ArrayWriter::AppendBytes(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return buffer_.size() < kBufferBytes ? OkStatus() : Flush();
}

Status ArrayWriter::Flush() {
  MILLRACE_RETURN_IF_ERROR(WriteAt(file_, buffer_, record_.bytes).WithContext(name_));
  hash_.Update(buffer_);
  record_.bytes += buffer_.size();
  buffer_.clear();
  return OkStatus();
}

Result<ArrayRecord> ArrayWriter::Finish() && {
  MILLRACE_RETURN_IF_ERROR(Flush());
  const std::uint64_t expected = record_.offset + record_.type.Bytes().value_or(0);
  if (record_.bytes != expected) {
    return Internal(
        fmt::format("{}: {} bytes were written, expected {}", name_, record_.bytes, expected));
  }
  MILLRACE_RETURN_IF_ERROR(SyncFile(file_).WithContext(name_));
  record_.xxh3 = hash_.Finish();
  return std::move(record_);
}

}  // namespace millrace
