// The mapped files of a graph dataset, watched for damage. Their contents may be compared with
// their digests, too.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "server/files/file_watch.h"
#include "server/kinds/graph/format/content_check.h"
#include "server/kinds/graph/format/verified_files.h"

namespace millrace {

class WatchedFiles final : public FileWatch {
 public:
  explicit WatchedFiles(std::vector<WatchedFile> files) : files_(std::move(files)) {}
  /// Check will compare contents with their digests too, some of them at each call, until all were
  /// compared once. `memory`: files that were compared before.
  WatchedFiles(std::vector<WatchedFile> files, VerifiedFiles memory, std::uint64_t bytes_at_once);

  const std::vector<WatchedFile>& files() const { return files_; }

  /// The share of their bytes that Check has still to compare, 0 to 1.
  double unverified() const { return unverified_.load(); }

 private:
  Files MappedNow() const override;
  std::string NameOf(std::uint32_t number) const override { return files_[number].name; }
  Status CompareBytes(std::uint32_t number, const MappedFile& file,
                      const std::stop_token& stop) const override {
    return HashesTo(files_[number].digest, file, stop);
  }
  /// Compares some more contents.
  std::vector<FileVerdict> CheckMore(const std::set<std::uint32_t>& damaged,
                                     const std::stop_token& stop, FileNews& news) const override;

  const std::vector<WatchedFile> files_;
  mutable std::optional<ContentCheck> contents_;  // used by one Check at a time
  mutable std::atomic<double> unverified_{0};
};

}  // namespace millrace
