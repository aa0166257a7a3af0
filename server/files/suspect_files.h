// Finds out which mapped files have to be hashed, because something touched them, and with what
// result.
//
// If the size and inode of a file are unchanged but its times are not, the file was touched or
// written to. Only its bytes can tell which. It is hashed at once, so that a change is found soon.
// If its content is unchanged, it is hashed once more at the next look. The second hash is for a
// write that came during the first one: file times are coarse, so such a write may not have changed
// them again. Only then are the new times accepted as those of the unchanged file. A file whose
// times change at every look stays in doubt and is hashed at every look. The file stays in use
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

/// The finding about the content of a file.
struct FileVerdict {
  std::uint32_t number;
  Status status;  // OK: the content is as expected; otherwise what is wrong with it
};

class SuspectFiles {
 public:
  /// The most that is hashed after one check, rounded up to whole files, so that other files are
  /// soon checked again.
  static constexpr std::uint64_t kBytesAtOnce = std::uint64_t{1} << 30;

  /// Reads file `number` and compares it with its known content. OK if it is the same. Cancelled if
  /// the caller does not want to wait. Any other status says what is wrong with the file.
  using Compare = std::function<Status(std::uint32_t number, const MappedFile& file)>;

  explicit SuspectFiles(std::uint64_t bytes_at_once = kBytesAtOnce)
      : bytes_at_once_(bytes_at_once) {}

  /// Checks a file, and notes it if it has to be hashed. `file` has to live as long as this object.
  FileChange Check(std::uint32_t number, const MappedFile& file);

  /// Hashes suspect files; those that have waited longest come first. An OK verdict is about a file
  /// that was touched and is unchanged. Call it once after each check of all files.
  std::vector<FileVerdict> Reconcile(const Compare& compare);

 private:
  struct Suspect {
    const MappedFile* file = nullptr;
    FileIdentity known;  // with this identity, the content is known to be unchanged
    // With this identity, one hash found the content unchanged. It becomes `known` when the second
    // hash finds so too.
    std::optional<FileIdentity> hashed;
    bool waits = false;  // it is in queue_
  };

  /// Empty if the file is no longer suspect, or has to be hashed again.
  std::optional<Status> ReconcileOne(std::uint32_t number, Suspect& suspect,
                                     const Compare& compare);

  const std::uint64_t bytes_at_once_;
  std::map<std::uint32_t, Suspect> suspects_;  // every file that was ever touched
  std::deque<std::uint32_t> queue_;
};

}  // namespace millrace
