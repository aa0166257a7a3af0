// The files of a dataset's folder, at any depth below it, and their names.
//
// Value types; free functions are thread-safe.
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

/// A file with an error.
struct BadFile {
  std::string name;    // name in the dataset
  std::string reason;  // begins with "at byte N: " if a place is known

  /// Control characters in the name are escaped, so that each file takes one line.
  std::string ToString() const;
};

/// The text with escapes ("\\x0a") for control characters, backslashes and bytes that are not
/// UTF-8.
std::string Escaped(std::string_view text);

/// DataLoss that names every bad file, one on each line, ordered by name. The message begins with
/// `what`. REQUIRES: !bad.empty().
Status BadFilesStatus(std::string_view what, std::vector<BadFile> bad);

/// The content of a folder.
struct DatasetListing {
  std::vector<std::string> names;  // paths below the folder, with '/'
  std::vector<FileIdentity> identities;
  // Files that cannot be read, names that are not UTF-8, folders that cannot be read.
  std::vector<BadFile> bad;
  std::vector<std::string> linked_folders;  // links to folders, which are not followed
};

/// NotFound, PermissionDenied or InvalidArgument, with the folder's name, if it cannot be listed.
Status CheckFolder(const std::filesystem::path& dir);

/// Whether the last component of a name begins with a dot, so that nothing there is part of a
/// dataset: programs, Millrace too, keep files of their own there (index, columns).
bool IsHidden(std::string_view last);

/// Whether a file belongs to datasets of a kind, by the last component of its name.
using IsDataFile = bool (*)(std::string_view last);
/// *.bin, with a name before the suffix.
bool IsBinFile(std::string_view last);

/// Whether ListDataset would find a file, good or bad. Stops at the first one.
bool HasDatasetFile(const std::filesystem::path& dir, IsDataFile is_data = IsBinFile);

/// Lists a folder, ordered by NameLess: the regular files with names of data, at any depth. Hidden
/// names do not count. Links to files are followed, links to folders are not. NotFound,
/// PermissionDenied or InvalidArgument, with the folder's name, if the folder cannot be listed or
/// has no file of the dataset. `what`: such a file, for the message.
Result<DatasetListing> ListDataset(const std::filesystem::path& dir, IsDataFile is_data = IsBinFile,
                                   std::string_view what = "*.bin file");

/// The same listing without links, its good files ordered by the bytes of their names.
DatasetListing OrderedByBytes(DatasetListing listing);

/// Lines that name the links to folders below a dataset's folder, for people; empty if there are no
/// links.
std::string DescribeLinkedFolders(const std::filesystem::path& dir);

/// Whether `a` comes before `b` if both are compared component by component, from left to right:
/// "a/c1/d.bin" comes before "a/c1.bin".
bool NameLess(std::string_view a, std::string_view b);

}  // namespace millrace
