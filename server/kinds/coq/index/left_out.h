// Decides which files an index without bad files leaves out: the bad files, and every file that
// needs one of them, directly or through others.
//
// The remaining files do not depend on any file that is left out. So their index is the index of a
// folder without the other files. In particular the order is the same: a file takes its place as
// soon as all its dependencies have theirs, and all dependencies of a remaining file remain.
//
// Free functions, thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "server/files/dataset_files.h"
#include "server/kinds/coq/index/dataset_index.h"

namespace millrace {

/// A file that an index leaves out.
struct LeftOutFile {
  std::string name;
  std::string reason;
  LeftOutWhy why = LeftOutWhy::kBad;
  FileIdentity identity;  // all 0 if the file could not be examined
};

/// The error in a file itself.
struct BadReason {
  std::string reason;
  LeftOutWhy why = LeftOutWhy::kBad;
};

/// A file that is left out, given by its place.
struct LeftOutPlace {
  std::uint32_t place = 0;
  BadReason because;
};

/// The names of files, and for each file the places of its dependencies. Both are ordered by place.
struct FileNeeds {
  std::span<const std::string> names;
  std::span<const std::span<const std::uint32_t>> dependencies;
};

/// The bad files and the files that need them, in the order of their places. If a file is good
/// itself, its reason names the nearest bad file and the files on the way to it. Reasons have at
/// most 500 bytes and are UTF-8. REQUIRES: both members of `files` have the same length.
std::vector<LeftOutPlace> FindLeftOut(const FileNeeds& files,
                                      const std::map<std::uint32_t, BadReason>& bad);

/// The reason why the files to leave out must be decided anew. Empty if the files have not changed.
/// `skip_bad`: whether anything may be left out.
std::string WhyLeftOutIsStale(const std::filesystem::path& dir, const DatasetIndex& index,
                              const DatasetListing& listing, bool skip_bad);

}  // namespace millrace
