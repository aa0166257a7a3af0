// Which mapped files have to be hashed, because something touched them, and what became of them.
//
// A file whose size and inode are as they were, and whose times are not, was touched or written to:
// only its bytes tell. It is hashed at once, so that a change is found soon. Where it holds what it
// held, it is hashed once more at the next look: a write that came while it was being hashed, and
// so soon after the times were asked for that they did not move on, is found by that. Only then are
// the new times those it is known by. A file whose times move on at every look stays in doubt, is
// hashed at every look, and is used all the while.
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

/// Hashes what is mapped for random access. DataLoss where its XXH3-128 is not `expected` or bytes
/// cannot be read; Cancelled within 16 MiB of `stop`.
Status HashesTo(const Digest128& expected, const MappedFile& file, const std::stop_token& stop);

class FileDoubts {
 public:
  /// Hashed at one look, as the last file ends: other files are to be looked at again soon.
  static constexpr std::uint64_t kBytesAtOnce = std::uint64_t{1} << 30;

  /// Reads file `number` and compares it with what it was. OK where it is the same; Cancelled where
  /// the caller does not want to wait; anything else is what is wrong with it.
  using Compare = std::function<Status(std::uint32_t number, const MappedFile& file)>;

  struct Verdict {
    std::uint32_t number;
    Status status;  // OK: it was touched, and holds what it held
  };

  explicit FileDoubts(std::uint64_t bytes_at_once = kBytesAtOnce) : bytes_at_once_(bytes_at_once) {}

  /// Looks at a file, and remembers it where it has to be hashed. `file` lives as long as this.
  FileChange Look(std::uint32_t number, const MappedFile& file);

  /// Hashes files in doubt, those that have waited longest first. To be called once after each look
  /// at all files.
  std::vector<Verdict> Settle(const Compare& compare);

 private:
  struct Doubt {
    const MappedFile* file = nullptr;
    FileIdentity known;                  // with it, the file holds what it held
    std::optional<FileIdentity> hashed;  // with it, it held that once
    bool waits = false;                  // it is in queue_
  };

  /// None where the file is not in doubt any more, or has to be hashed again.
  std::optional<Status> SettleOne(std::uint32_t number, Doubt& doubt, const Compare& compare);

  const std::uint64_t bytes_at_once_;
  std::map<std::uint32_t, Doubt> doubts_;  // of every file that was ever touched
  std::deque<std::uint32_t> queue_;
};

}  // namespace millrace
