// Checks whether an index still fits its dataset's files, and repairs it if only times or inodes
// have changed.
//
// Free functions, thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/files/dataset_files.h"
#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/index/index_builder.h"

namespace millrace {

/// The result of comparing an index with the files' names, sizes, inodes and times.
struct IndexFreshness {
  /// The reason why the index does not fit, for people. Empty if names and sizes are the same.
  std::string stale;
  /// Files (FileIds) that must be hashed to find out whether the index fits.
  std::vector<std::uint32_t> touched;

  bool fits() const { return stale.empty() && touched.empty(); }
};

/// The part of a file's identity that an index keeps.
HostFileRecord HostRecord(const FileIdentity& identity);
bool SameHostRecord(const HostFileRecord& a, const HostFileRecord& b);

/// For files that the index leaves out, only names are compared. WhyLeftOutIsStale checks the rest.
IndexFreshness CompareWithListing(const DatasetIndex& index, const DatasetListing& listing);

/// Hashes a file. Fails if it differs from the indexed file or cannot be read; the message names
/// it.
Status HashesAsIndexed(const std::filesystem::path& dir, const DatasetIndex& index,
                       std::uint32_t file);

/// Hashes the touched files. Empty if all are as indexed; otherwise the difference, for people.
std::string HashTouched(const std::filesystem::path& dir, const DatasetIndex& index,
                        const std::vector<std::uint32_t>& touched, const BuildOptions& options);

/// Writes a copy of the index at `from` to `to` (which may be the same path), with the inodes and
/// times of `listing` and this host. REQUIRES: except for inodes and times, the index fits; nobody
/// else writes `to`.
Status RenewIndex(const DatasetIndex& index, const std::filesystem::path& from,
                  const std::filesystem::path& to, const DatasetListing& listing);

}  // namespace millrace
