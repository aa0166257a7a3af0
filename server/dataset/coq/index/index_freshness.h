// Whether an index still fits its dataset's files, and how to make it fit where only times or
// inodes have changed.
//
// Free functions, thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/coq/index/index_builder.h"
#include "server/dataset/dataset_files.h"

namespace millrace {

/// What a look at sizes, inodes and times says of an index.
struct IndexFreshness {
  /// Why it does not fit, for a person; empty where names and sizes are the same.
  std::string stale;
  /// Files (FileIds) that have to be hashed before it is known whether the index fits.
  std::vector<std::uint32_t> touched;

  bool fits() const { return stale.empty() && touched.empty(); }
};

/// What an index keeps of what the file system says of a file.
HostFileRecord HostRecord(const FileIdentity& identity);
bool SameHostRecord(const HostFileRecord& a, const HostFileRecord& b);

/// Of what the index leaves out only names are compared; WhyLeftOutIsStale looks at the rest.
IndexFreshness CompareWithListing(const DatasetIndex& index, const DatasetListing& listing);

/// Hashes a file. Not ok where it differs from what was indexed or cannot be read; names it.
Status HashesAsIndexed(const std::filesystem::path& dir, const DatasetIndex& index,
                       std::uint32_t file);

/// Hashes the touched files. Empty where all are as indexed, else what differs, for a person.
std::string HashTouched(const std::filesystem::path& dir, const DatasetIndex& index,
                        const std::vector<std::uint32_t>& touched, const BuildOptions& options);

/// Writes a copy of the index at `from` to `to` (which may be the same), with the inodes and times
/// of `listing` and this host. REQUIRES: the index fits but for those; nobody else writes `to`.
Status RenewIndex(const DatasetIndex& index, const std::filesystem::path& from,
                  const std::filesystem::path& to, const DatasetListing& listing);

}  // namespace millrace
