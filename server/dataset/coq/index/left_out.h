// Which files an index leaves out when it is built without the bad ones: these, and every file that
// needs one of them, directly or through others.
//
// What is left is closed: none of it depends on what is left out, so that its index is the one of a
// folder in which those files do not exist. In particular the order is the same: a file takes its
// place as soon as its dependencies have theirs, and those of a file that stays all stay.
//
// Free functions, thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/dataset_files.h"

namespace millrace {

/// A file that an index leaves out.
struct LeftOutFile {
  std::string name;
  std::string reason;
  LeftOutWhy why = LeftOutWhy::kBad;
  FileIdentity identity;  // all 0 where it could not be looked at
};

/// What is wrong with a file by itself.
struct BadReason {
  std::string reason;
  LeftOutWhy why = LeftOutWhy::kBad;
};

/// A file that is left out, by its place.
struct LeftOutPlace {
  std::uint32_t place = 0;
  BadReason because;
};

/// Names of files, and the places of what each depends on; both by place.
struct FileNeeds {
  std::span<const std::string> names;
  std::span<const std::span<const std::uint32_t>> dependencies;
};

/// The bad files and those that need them, in the order of their places. The reason of one that is
/// good by itself names the nearest bad file and those on the way to it. Reasons have at most 500
/// bytes, all of them UTF-8. REQUIRES: both of `files` are equally long.
std::vector<LeftOutPlace> FindLeftOut(const FileNeeds& files,
                                      const std::map<std::uint32_t, BadReason>& bad);

/// Why what an index leaves out has to be decided anew; empty where the files are as they were.
/// `skip_bad`: whether anything may be left out.
std::string WhyLeftOutIsStale(const std::filesystem::path& dir, const DatasetIndex& index,
                              const DatasetListing& listing, bool skip_bad);

}  // namespace millrace
