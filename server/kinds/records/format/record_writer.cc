#include "server/kinds/records/format/record_writer.h"

#include "server/kinds/records/format/crc32c.h"

namespace millrace {
namespace {

constexpr std::size_t kRecordBufferBytes = std::size_t{1} << 20;

template <class T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Result<RecordWriter> RecordWriter::Create(const std::filesystem::path& path) {
  MILLRACE_ASSIGN_OR_RETURN(FileDescriptor file, ReplaceFile(path, Readers::kUmask));
  return RecordWriter(std::move(file), path.string());
}

Status RecordWriter::Append(std::span<const std::byte> data) {
  const std::uint64_t length = data.size();
  Put(BytesOf(length));
  Put(BytesOf(MaskedCrc32c(BytesOf(length))));
  if (data.size() < kRecordBufferBytes) {
    Put(data);
  } else {
    MILLRACE_RETURN_IF_ERROR(Flush());
    MILLRACE_RETURN_IF_ERROR(Write(data));
  }
  Put(BytesOf(MaskedCrc32c(data)));
  ++records_;
  return buffer_.size() < kRecordBufferBytes ? OkStatus() : Flush();
}

Status RecordWriter::Close(bool sync) {
  MILLRACE_RETURN_IF_ERROR(Flush());
  if (sync) MILLRACE_RETURN_IF_ERROR(SyncFile(file_).WithContext(name_));
  file_.Close();
  return OkStatus();
}

Status RecordWriter::Flush() {
  MILLRACE_RETURN_IF_ERROR(Write(buffer_));
  buffer_.clear();
  return OkStatus();
}

Status RecordWriter::Write(std::span<const std::byte> bytes) {
  MILLRACE_RETURN_IF_ERROR(WriteAt(file_, bytes, written_).WithContext(name_));
  written_ += bytes.size();
  return OkStatus();
}

}  // namespace millrace
