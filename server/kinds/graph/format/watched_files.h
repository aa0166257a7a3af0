// The mapped files of a dataset, with their known damage.
//
// Thread-safe. Bytes of a file may change at any moment: load each value only once, check it before
// it is used, and ask Damages() before results made from such values are handed on.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/system/mutex.h"
#include "server/files/damaged_files.h"
#include "server/files/mapped_file.h"
#include "server/files/suspect_files.h"
#include "server/kinds/graph/format/content_check.h"
#include "server/kinds/graph/format/verified_files.h"

namespace millrace {

class WatchedFiles {
 public:
  explicit WatchedFiles(std::vector<WatchedFile> files) : files_(std::move(files)) {}
  /// Check will compare contents with their digests too, some of them at each call, until all were
  /// compared once. `memory`: files that were compared before.
  WatchedFiles(std::vector<WatchedFile> files, VerifiedFiles memory, std::uint64_t bytes_at_once);

  const std::vector<WatchedFile>& files() const { return files_; }

  /// Whether the files are still the mapped ones: one call of stat for each. If only times differ,
  /// the file is hashed (SuspectFiles). `stop` ends that early; suspect files then stay suspect. A
  /// file that was changed in place stays damaged. One thread checks at a time and others wait for
  /// it; readers never wait.
  FileNews Check(const std::stop_token& stop = {}) const;

  /// The share of their bytes that Check has still to compare, 0 to 1.
  double unverified() const { return unverified_.load(); }

  /// Files known to be damaged: Check found them, or a read found no bytes. Data read from such a
  /// file are worthless; data read from other files are right. Costs two atomic loads if no file is
  /// damaged.
  std::vector<DamagedFile> Damages() const;

 private:
  void Note(std::uint32_t number, std::string what) const MILLRACE_REQUIRES(mutex_);
  /// Notes the files in which a read found no bytes.
  void NoteFaults() const MILLRACE_REQUIRES(mutex_);

  const std::vector<WatchedFile> files_;
  mutable Mutex looking_;  // held while files are hashed; taken before mutex_
  mutable SuspectFiles suspects_ MILLRACE_GUARDED_BY(looking_);
  mutable std::optional<ContentCheck> contents_ MILLRACE_GUARDED_BY(looking_);
  mutable std::atomic<double> unverified_{0};
  mutable Mutex mutex_;  // not taken while every file is whole
  mutable std::map<std::uint32_t, DamagedFile> damaged_ MILLRACE_GUARDED_BY(mutex_);
  mutable std::set<std::uint32_t> told_ MILLRACE_GUARDED_BY(mutex_);  // files already reported
  mutable std::atomic<bool> any_damaged_{false};
};

}  // namespace millrace
