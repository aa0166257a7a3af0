// Watches mapped files for damage: one that is written over, cut off or replaced while it is used.
// Who owns the files derives from this class, and says which are mapped now, and how their contents
// are compared with what is expected of them.
//
// Thread-safe. Bytes of a file may change at any moment: load each value only once, check it before
// it is used, and ask Damages() before results made from such values are handed on.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
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

namespace millrace {

class FileWatch {
 public:
  FileWatch() = default;
  virtual ~FileWatch() = default;
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  /// Whether the files are still those that were mapped: one call of stat for each. If only times
  /// differ, the file is hashed (SuspectFiles), which takes 0.2 s for 1 GB in the page cache.
  /// `stop` ends that early; suspect files are then hashed at the next call. A file that was
  /// changed in place stays damaged. One thread checks at a time and others wait for it; readers
  /// never wait.
  FileNews Check(const std::stop_token& stop = {}) const;

  /// Files known to be damaged: Check found them, a read found no bytes, or their damage was noted.
  /// Everything read from such a file is worthless; everything read from other files is right.
  /// Costs two atomic loads if no file is damaged.
  std::vector<DamagedFile> Damages() const;
  /// Notes damage, unless the file is already known to be damaged.
  void NoteDamage(std::uint32_t number, std::string what) const;

 protected:
  using Files = std::map<std::uint32_t, const MappedFile*>;

  /// The mapped files by number. They stay as long as this object. Called without a lock held.
  virtual Files MappedNow() const = 0;
  virtual std::string NameOf(std::uint32_t number) const = 0;
  /// Whether the mapped bytes are as expected. Cancelled if `stop` is requested.
  virtual Status CompareBytes(std::uint32_t number, const MappedFile& file,
                              const std::stop_token& stop) const = 0;
  /// Looks for damage of another kind, in files that are not known to be damaged, and returns
  /// the damaged ones. Called by one thread at a time, at each Check.
  virtual std::vector<FileVerdict> CheckMore(const std::set<std::uint32_t>& /*damaged*/,
                                             const std::stop_token& /*stop*/,
                                             FileNews& /*news*/) const {
    return {};
  }

 private:
  void Note(std::uint32_t number, std::string what) const MILLRACE_REQUIRES(mutex_);
  /// Notes the files in which a read found no bytes.
  void NoteFaults(const Files& files) const MILLRACE_REQUIRES(mutex_);

  mutable Mutex checking_;  // held while files are hashed; taken before mutex_
  mutable SuspectFiles suspects_ MILLRACE_GUARDED_BY(checking_);
  mutable Mutex mutex_;  // not taken while every file is whole
  mutable std::map<std::uint32_t, DamagedFile> damaged_ MILLRACE_GUARDED_BY(mutex_);
  mutable std::set<std::uint32_t> told_ MILLRACE_GUARDED_BY(mutex_);  // files already reported
  mutable std::atomic<bool> any_damaged_{false};
};

}  // namespace millrace
