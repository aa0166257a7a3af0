// The files of a dataset's folder: every *.bin below it, at any depth, and their names.
//
// Values; free functions are thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "server/files/file_identity.h"

namespace millrace {

/// A file that is not what it should be.
struct BadFile {
  std::string name;    // in the dataset
  std::string reason;  // begins with "at byte N: " where a place is known

  /// Control characters of the name are escaped: one file, one line.
  std::string ToString() const;
};

/// The text with what is no UTF-8, control characters and backslashes escaped: "\\x0a".
std::string Escaped(std::string_view text);

/// DataLoss naming every bad file, one a line, in the order of their names. `what` begins it.
/// REQUIRES: not bad.empty().
Status BadFilesStatus(std::string_view what, std::vector<BadFile> bad);

/// What a folder holds, ordered by name.
struct DatasetListing {
  std::vector<std::string> names;  // paths below the folder, with '/'
  std::vector<FileIdentity> identities;
  std::vector<BadFile> bad;  // not regular, unreadable, names that are no UTF-8, unreadable folders
};

/// Lists a folder. Links to files are followed, links to folders are not. NotFound,
/// PermissionDenied or InvalidArgument, naming it, for a folder that cannot be listed or that has
/// no
/// *.bin file.
Result<DatasetListing> ListDataset(const std::filesystem::path& dir);

/// Whether two names compare as path parts, left to right: "a/c1/d.bin" before "a/c1.bin".
bool NameLess(std::string_view a, std::string_view b);

/// Whether `text` is UTF-8 (RFC 3629: no surrogates, no overlong forms).
bool IsUtf8(std::string_view text);

}  // namespace millrace
