// Compares the contents of a dataset's files with their digests, once and piece by piece, while the
// dataset is in use.
//
// Not thread-safe, except unverified().
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <stop_token>
#include <vector>

#include "common/base/hash.h"
#include "common/base/result.h"
#include "server/files/mapped_file.h"
#include "server/files/suspect_files.h"
#include "server/kinds/graph/format/verified_files.h"

namespace millrace {

/// A file, and its expected content.
struct WatchedFile {
  MappedFile file;
  Digest128 digest;
  std::string name;  // for messages
};

class ContentCheck {
 public:
  /// The most bytes that are hashed at one call, so that a disk serves batches too, and other
  /// checks are not late.
  static constexpr std::uint64_t kBytesAtOnce = std::uint64_t{128} << 20;

  /// `files` has to outlive the object. Files that `memory` has count as compared; files found
  /// right are noted there.
  ContentCheck(const std::vector<WatchedFile>& files, VerifiedFiles memory,
               std::uint64_t bytes_at_once = kBytesAtOnce);

  /// Hashes some more, except files in `damaged`. Returns the files that differ.
  std::vector<FileVerdict> Advance(const std::set<std::uint32_t>& damaged,
                                   const std::stop_token& stop);

  /// The share of all bytes that is not compared yet, 0 to 1.
  double unverified() const {
    return total_ == 0 ? 0 : static_cast<double>(left_.load()) / static_cast<double>(total_);
  }

 private:
  /// Compares the file that was hashed to its end.
  Status Finish(const WatchedFile& watched);
  /// Goes on to the next file that has to be hashed.
  void Skip(const std::set<std::uint32_t>& damaged);
  void Next();

  const std::vector<WatchedFile>& files_;
  VerifiedFiles memory_;
  const std::uint64_t bytes_at_once_;
  std::vector<bool> trusted_;
  std::uint32_t next_ = 0;    // the file that is hashed now
  std::uint64_t hashed_ = 0;  // bytes of it
  Xxh3Stream hash_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> left_{0};
};

}  // namespace millrace
