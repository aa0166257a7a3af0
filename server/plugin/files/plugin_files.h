// The files of a plugin. They are read once, hashed, and stored in a folder that is named by the
// hash. Plugins are imported from there, so the hashed files are the files that run, and later
// changes of the original affect only later starts.
//
// The files of a folder are all regular files in it and below, without names that begin with a dot,
// `__pycache__` folders and `.pyc` files. Links are followed.
//
// Free functions are thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace millrace {

/// The most bytes of the files of a plugin together.
inline constexpr std::uint64_t kMaxPluginFileBytes = std::uint64_t{64} << 20;

/// Files in memory. A value.
struct FileSet {
  struct File {
    std::string name;  // relative, with '/' between folders
    std::string content;
  };
  std::vector<File> files;  // by the bytes of their names, ascending

  /// XXH3-128 over names and contents: for each file the length of its name (8 bytes, little
  /// endian), the name, the length of its content, and the content.
  Digest128 Digest() const;
};

/// Reads the files of the folder `path`. NotFound if it is no folder. ResourceExhausted with the
/// size and the largest files if they have more than `max_bytes`. Other errors name the file.
Result<FileSet> ReadFileSet(const std::filesystem::path& path,
                            std::uint64_t max_bytes = kMaxPluginFileBytes);

/// NotFound unless the files have the module `name`: `name.py` or `name/__init__.py`. The message
/// lists the existing modules.
Status CheckHasModule(const FileSet& files, std::string_view name);

/// Stores the files in `folder`/DIGEST and returns that path. Such a folder is whole or absent,
/// also if several processes store the same files at the same time. An existing folder is read and
/// used if it has exactly these files; otherwise it is replaced. `folder` is made if it is missing.
Result<std::filesystem::path> StoreFileSet(const FileSet& files,
                                           const std::filesystem::path& folder);

}  // namespace millrace
