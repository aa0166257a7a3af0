#include "server/kinds/coq/index/blob_spool.h"

#include <array>
#include <utility>

namespace millrace {
namespace {

// A blob begins with the lengths of its arrays; the arrays follow.
using Lengths = std::array<std::uint64_t, kBlobArrays>;

}  // namespace

Result<BlobSpool> BlobSpool::Create(const std::filesystem::path& folder) {
  MILLRACE_ASSIGN_OR_RETURN(FileDescriptor file, OpenNamelessFile(folder));
  return BlobSpool(std::move(file));
}

Result<std::uint64_t> BlobSpool::Put(FileBlob& blob) {
  Lengths lengths;
  std::size_t arrays = 0;
  std::uint64_t bytes = sizeof(lengths);
  blob.ForEachArray([&](const auto& array) {
    lengths[arrays++] = array.size();
    bytes += std::as_bytes(std::span(array)).size();
  });
  const std::uint64_t place = end_.fetch_add(bytes);
  std::uint64_t at = place;
  Status status;
  const auto write = [&](std::span<const std::byte> array) {
    if (status.ok()) status = WriteAt(file_, array, at);
    at += array.size();
  };
  write(std::as_bytes(std::span(lengths)));
  blob.ForEachArray([&](const auto& array) { write(std::as_bytes(std::span(array))); });
  if (!status.ok()) return status.WithContext("temporary file of the index");
  return place;
}

Result<FileBlob> BlobSpool::Get(std::uint64_t place) const {
  Lengths lengths;
  Status status = ReadAt(file_, std::as_writable_bytes(std::span(lengths)), place);
  FileBlob blob;
  std::size_t arrays = 0;
  std::uint64_t at = place + sizeof(lengths);
  blob.ForEachArray([&](auto& array) {
    if (!status.ok()) return;
    array.resize(lengths[arrays++]);
    const auto bytes = std::as_writable_bytes(std::span(array));
    status = ReadAt(file_, bytes, at);
    at += bytes.size();
  });
  if (!status.ok()) return status.WithContext("temporary file of the index");
  return blob;
}

}  // namespace millrace
