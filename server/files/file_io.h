// Complete reads and writes at a place in a file. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "common/base/result.h"
#include "common/system/file_descriptor.h"

namespace millrace {

/// Who may read a new file: its user alone (indexes, caches), or the users that the umask allows
/// (datasets).
enum class Readers { kOwner, kUmask };

/// Opens a file. With O_CREAT, creates it for `readers`. Messages name the file.
Result<FileDescriptor> OpenFile(const std::filesystem::path& path, int flags,
                                Readers readers = Readers::kOwner);

/// A new, empty file that replaces any file of the name `path`. Links are not followed.
Result<FileDescriptor> ReplaceFile(const std::filesystem::path& path,
                                   Readers readers = Readers::kOwner);

/// A new file without a name, in `folder`. It disappears when it is closed.
Result<FileDescriptor> OpenNamelessFile(const std::filesystem::path& folder);

/// Writes all of `bytes` from `offset` on. Messages do not name the file; the caller adds that.
Status WriteAt(const FileDescriptor& file, std::span<const std::byte> bytes, std::uint64_t offset);

/// Fills `bytes` from `offset` on. DataLoss if the file ends before.
Status ReadAt(const FileDescriptor& file, std::span<std::byte> bytes, std::uint64_t offset);

/// Writes a file that is whole or absent: `temporary`, in the same folder, is written, synced and
/// renamed to `path`, and so replaces any file of that name. Messages name the file.
Status WriteWholeFile(const std::filesystem::path& path, const std::filesystem::path& temporary,
                      std::span<const std::byte> bytes);

/// fsync of a file, or of the folder with this path.
Status SyncFile(const FileDescriptor& file);
Status SyncFolder(const std::filesystem::path& folder);

}  // namespace millrace
