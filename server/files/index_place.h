// Where the index of a folder is, and the lock under which it is built.
//
// The index of a folder DIR is DIR/.millrace.index. If DIR cannot be written, it is the file
// `index` in a folder of the cache; the digest of DIR's real path is the name of that folder. A
// caller may also name the index file. If several processes need an index, one builds it and the
// others wait (flock on the index's name + ".lock").
//
// Free functions, thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "server/files/file_io.h"

namespace millrace {

/// The name of an index in its dataset's folder.
inline constexpr const char* kIndexFileName = ".millrace.index";

/// The places where the index may be, the best one first. `index_file`: where the caller wants it,
/// or empty. `cache_dir`: empty for the user's cache.
std::vector<std::filesystem::path> IndexPlaces(const std::filesystem::path& dir,
                                               const std::filesystem::path& index_file,
                                               const std::filesystem::path& cache_dir);

/// The folders that may hold the measured columns of a dataset, the first writable one of which
/// gets them: beside its index. Arguments as of IndexPlaces.
std::vector<std::filesystem::path> ColumnFolders(const std::filesystem::path& dir,
                                                 const std::filesystem::path& index_file,
                                                 const std::filesystem::path& cache_dir);

/// Refuses to overwrite a file that is no index, because a mistyped name must not destroy a file.
/// InvalidArgument. `magic`: the first bytes of indexes.
Status CheckReplaceableIndex(const std::filesystem::path& file, std::string_view magic);

/// Cancelled if a stop was requested; otherwise ok.
Status CheckIndexStop(const std::stop_token& stop);

/// The lock of a place, held as long as this object lives.
struct LockedIndexPlace {
  std::filesystem::path place;
  FileDescriptor lock;
};

/// Takes the lock of the first place that can be written. Waits while another process holds it, and
/// logs that. Cancelled, with the folder `dir` of the dataset; PermissionDenied; errors of disks.
Result<LockedIndexPlace> LockIndexPlace(const std::filesystem::path& dir,
                                        std::span<const std::filesystem::path> places,
                                        const std::stop_token& stop, Logger& logger);

}  // namespace millrace
