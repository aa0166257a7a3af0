// What tells, without reading it, whether a file is still the one that was indexed.
//
// Values; free functions are thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>

#include <sys/stat.h>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace millrace {

/// Size, inode and times of a file. Equal identities on one host mean equal contents, short of
/// somebody who forges times; different ones mean that the file has to be hashed.
struct FileIdentity {
  std::uint64_t size = 0;
  std::uint64_t device = 0;  // not stored: numbers of devices change with a mount
  std::uint64_t inode = 0;
  std::int64_t modified_ns = 0;  // since 1970: contents
  std::int64_t changed_ns = 0;   // since 1970: contents or inode

  static FileIdentity Of(const struct stat& status);

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// The identity of what `path` leads to (links are followed). The message leaves the path to the
/// caller. NotFound; PermissionDenied; DataLoss where it is not a regular file.
Result<FileIdentity> IdentifyFile(const std::filesystem::path& path);

/// "a folder", "a named pipe", …
const char* FileKindName(mode_t mode);

/// Says for which host inodes and times hold: a digest of /etc/machine-id, or of the host's name
/// where there is none.
Digest128 HostId();

}  // namespace millrace
