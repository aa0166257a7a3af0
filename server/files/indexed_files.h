// The files of an indexed dataset: mapped when they are first read, and watched for damage.
//
// Thread-safe. A file that is open costs one atomic load and stays mapped as long as this object.
// Somebody may overwrite it at any moment: load each value only once, check its range before it is
// used, and ask Damages() before results made from such values are handed on.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
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

namespace millrace {

/// A file as it was indexed.
struct IndexedFile {
  std::string name;  // in the dataset
  std::uint64_t size = 0;
  Digest128 digest;
  /// With this identity, the content is known to be the indexed one; nullopt: unknown on this host.
  std::optional<FileIdentity> identity;
};

/// How a file differs from the indexed one, for people; empty if it does not.
std::string DifferenceFromIndex(const std::filesystem::path& path, std::uint64_t size,
                                const Digest128& digest);

class IndexedFiles {
 public:
  /// Opens no file yet. `index`: the mapped index, which is watched too.
  IndexedFiles(std::filesystem::path dir, std::vector<IndexedFile> files,
               std::shared_ptr<const MappedFile> index);
  ~IndexedFiles();
  IndexedFiles(const IndexedFiles&) = delete;
  IndexedFiles& operator=(const IndexedFiles&) = delete;

  const std::vector<IndexedFile>& files() const { return files_; }

  /// A file, which is opened now if it is not open yet. If its identity is not the indexed one, its
  /// bytes are hashed. DataLoss that names the file if it is not the indexed one, or cannot be
  /// read. ResourceExhausted. REQUIRES: there is a file of this number.
  Result<const MappedFile*> Open(std::uint32_t file) const {
    if (const MappedFile* const open = open_[file].load(std::memory_order_acquire)) return open;
    return OpenNow(file);
  }

  /// As Dataset::CheckFiles. One thread checks at a time and others wait for it.
  FileNews Check(const std::stop_token& stop) const;
  /// As Dataset::Damages. Costs two atomic loads if no file is damaged.
  std::vector<DamagedFile> Damages() const;
  /// Notes that data read from a file differ from the indexed data.
  void NoteDamage(std::uint32_t file, std::string what) const;

 private:
  Result<const MappedFile*> OpenNow(std::uint32_t file) const;
  /// Maps a file and makes sure that it is the indexed one.
  Result<std::unique_ptr<const MappedFile>> Map(const IndexedFile& file) const;
  /// Open files that are not damaged, and the index.
  std::map<std::uint32_t, const MappedFile*> FilesToLookAt() const;
  Status CompareBytes(std::uint32_t number, const MappedFile& file,
                      const std::stop_token& stop) const;
  std::string NameOf(std::uint32_t number) const;
  void Note(std::uint32_t number, std::string what) const MILLRACE_REQUIRES(mutex_);
  /// Notes the files in which a read found no bytes.
  void NoteFaults() const MILLRACE_REQUIRES(mutex_);

  const std::filesystem::path dir_;
  const std::vector<IndexedFile> files_;
  const std::shared_ptr<const MappedFile> index_;
  const Digest128 index_digest_;
  const std::unique_ptr<std::atomic<const MappedFile*>[]> open_;
  mutable Mutex looking_;  // held while files are hashed; taken before mutex_
  mutable SuspectFiles suspects_ MILLRACE_GUARDED_BY(looking_);
  mutable Mutex mutex_;  // not taken for files that are open and whole
  mutable std::map<std::uint32_t, std::unique_ptr<const MappedFile>> mapped_
      MILLRACE_GUARDED_BY(mutex_);
  mutable std::map<std::uint32_t, DamagedFile> damaged_ MILLRACE_GUARDED_BY(mutex_);
  mutable std::set<std::uint32_t> told_ MILLRACE_GUARDED_BY(mutex_);  // files already reported
  mutable std::atomic<bool> any_damaged_{false};
};

}  // namespace millrace
