// Remembers which files were found to have their expected contents, so that they are not hashed
// again while size, time of modification and inode stay the same.
//
// The memory is a small text file: a line with its version and the host, then a line for each file:
// digest, size, inode, time of modification. A file that cannot be read counts as empty.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <tuple>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/files/file_identity.h"

namespace millrace {

class VerifiedFiles {
 public:
  /// Reads the memory at the first of `places` that has one of this host.
  explicit VerifiedFiles(std::vector<std::filesystem::path> places);

  /// Whether a file with this identity was found to have this digest.
  bool Has(const Digest128& digest, const FileIdentity& file) const;
  /// Notes a file. A file that was modified in the last seconds is not noted: another change may
  /// leave its time as it is. `now_ns`: the time, since 1970.
  void Add(const Digest128& digest, const FileIdentity& file, std::int64_t now_ns);
  /// Writes the memory to the first place that can be written, if files were noted since. If no
  /// place can be written, returns the error of the last one.
  Status Save();

 private:
  using Line = std::tuple<Digest128, std::uint64_t, std::uint64_t, std::int64_t>;

  bool Read(const std::filesystem::path& place);

  const std::vector<std::filesystem::path> places_;
  std::set<Line> lines_;
  bool changed_ = false;
};

}  // namespace millrace
