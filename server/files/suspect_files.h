// Finds out which mapped files have to be hashed, because they were touched, and with which result.
//
// If the size and inode of a file are unchanged but its times are not, the file was touched or
// written to. Only its bytes show which. It is hashed at once, so that a change is found soon. If
// its content is unchanged, it is hashed once more at the next check. The second hash is for a
// write that came during the first one: file times are coarse, so such a write may not have changed
// them again. Only then the new times are accepted as times of the unchanged file. A file whose
// times change at every check stays suspect and is hashed at every check. The file stays in use
// meanwhile.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/files/mapped_file.h"

namespace millrace {

/// Hashes a file that is mapped for random access. DataLoss if its XXH3-128 is not `expected`, or
/// if bytes cannot be read. Cancelled at most 16 MiB after `stop` was requested.
Status HashesTo(const Digest128& expected, const MappedFile& file, const std::stop_token& stop);

class SuspectFiles {
 public:
  /// The most bytes that are hashed after one check, rounded up to whole files, so that other files
  /// are soon checked again.
  static constexpr std::uint64_t kBytesAtOnce = std::uint64_t{1} << 30;

  /// Reads file `number` and compares it with its known content. OK if it is the same. Cancelled if
  /// the caller does not want to wait. Any other status describes the damage.
  using Compare = std::function<Status(std::uint32_t number, const MappedFile& file)>;

  struct Verdict {
    std::uint32_t number;
    Status status;  // OK: it was touched, but its content is unchanged
  };

  explicit SuspectFiles(std::uint64_t bytes_at_once = kBytesAtOnce)
      : bytes_at_once_(bytes_at_once) {}

  /// Checks a file, and notes it if it has to be hashed. `file` has to live as long as this object.
  FileChange Look(std::uint32_t number, const MappedFile& file);

  /// Hashes suspect files; files that have waited longest come first. Call it once after each check
  /// of all files.
  std::vector<Verdict> Reconcile(const Compare& compare);

 private:
  struct Suspect {
    const MappedFile* file = nullptr;
    FileIdentity known;  // with this identity, the content is known to be unchanged
    // With this identity, one hash found the content unchanged. It becomes `known` when the second
    // hash finds so too.
    std::optional<FileIdentity> hashed;
    bool waits = false;  // it is in queue_
  };

  /// nullopt if the file is no longer suspect, or has to be hashed again.
  std::optional<Status> ReconcileOne(std::uint32_t number, Suspect& doubt, const Compare& compare);

  const std::uint64_t bytes_at_once_;
  std::map<std::uint32_t, Suspect> suspects_;  // every file that was ever touched
  std::deque<std::uint32_t> queue_;
};

}  // namespace millrace
