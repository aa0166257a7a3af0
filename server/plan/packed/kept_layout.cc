#include "server/plan/packed/kept_layout.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include <fmt/core.h>

#include "server/files/file_io.h"
#include "server/plan/pack/layout_bytes.h"

namespace millrace {
namespace {

std::string FileName(const Digest128& key) { return key.ToHex() + ".rows"; }

Result<PackLayout> ReadLayout(const std::filesystem::path& path, const Digest128& key,
                              const PackOptions& options, std::uint64_t documents) {
  MILLRACE_ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDONLY));
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return Unavailable(error.message());
  std::vector<std::byte> bytes(size);
  MILLRACE_RETURN_IF_ERROR(ReadAt(file, bytes, 0));
  return DecodePackLayout(bytes, key, options, documents);
}

}  // namespace

std::optional<PackLayout> FindLayout(const std::vector<std::filesystem::path>& folders,
                                     const Digest128& key, const PackOptions& options,
                                     std::uint64_t documents, Logger& logger) {
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path path = folder / FileName(key);
    Result<PackLayout> found = ReadLayout(path, key, options, documents);
    if (found.ok()) return *std::move(found);
    if (found.status().code() == StatusCode::kNotFound) continue;
    logger.Warning("the kept rows of packed documents cannot be read; they are packed again",
                   {{"file", path.string()}, {"why", found.status()}});
  }
  return std::nullopt;
}

Status KeepLayout(const std::vector<std::filesystem::path>& folders, const Digest128& key,
                  const PackLayout& layout) {
  const std::vector<std::byte> bytes = EncodePackLayout(layout, key);
  Status written = NotFound("there is no folder for it");
  for (const std::filesystem::path& folder : folders) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      written = PermissionDenied(
          fmt::format("cannot make the folder {}: {}", folder.string(), error.message()));
      continue;
    }
    const std::filesystem::path path = folder / FileName(key);
    const std::filesystem::path temporary =
        folder / fmt::format("{}.{}", FileName(key), ::getpid());
    written = WriteWholeFile(path, temporary, bytes);
    if (written.ok()) break;
  }
  return written;
}

}  // namespace millrace
