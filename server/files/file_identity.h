// Finds out whether a file is still the indexed one, without reading it.
//
// Values; free functions are thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>

#include <sys/stat.h>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace millrace {

/// Size, inode and times of a file. On one host, equal identities mean equal contents, except if
/// somebody forges times. If identities differ, the file has to be hashed.
struct FileIdentity {
  std::uint64_t size = 0;
  std::uint64_t device = 0;  // not stored: numbers of devices change with a mount
  std::uint64_t inode = 0;
  std::int64_t modified_ns = 0;  // time of the last change of the contents, since 1970
  std::int64_t changed_ns = 0;   // time of the last change of contents or inode, since 1970

  static FileIdentity Of(const struct stat& status);

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// The identity of the file that `path` leads to; links are followed. Messages do not contain the
/// path; the caller adds it. NotFound. PermissionDenied. DataLoss if it is not a regular file.
Result<FileIdentity> IdentifyFile(const std::filesystem::path& path);

/// For example "a folder" or "a named pipe".
const char* FileKindName(mode_t mode);

/// Identifies the host for which inodes and times are valid: a digest of /etc/machine-id, or of the
/// host's name if that file does not exist.
Digest128 HostId();

}  // namespace millrace
