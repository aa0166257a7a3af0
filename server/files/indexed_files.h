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
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/system/mutex.h"
#include "server/files/dataset_files.h"
#include "server/files/file_watch.h"
#include "server/files/mapped_file.h"

namespace millrace {

/// A file as it was indexed.
struct IndexedFile {
  std::string name;  // in the dataset
  std::uint64_t size = 0;
  Digest128 digest;
  /// With this identity, the content is known to be the indexed one; none: it is unknown on this
  /// host.
  std::optional<FileIdentity> identity;
};

/// A bad file that an index leaves out.
struct OmittedFile {
  BadFile file;
  std::optional<FileIdentity> identity;  // nullopt if the file could not be examined
};

/// Names, sizes and contents of files, in their order, after `first`, the beginning of what is
/// hashed.
Digest128 DigestOfFiles(std::string_view first, std::span<const IndexedFile> files);

/// How a file differs from what was indexed, for people; empty if it does not.
std::string DifferenceFromIndex(const std::filesystem::path& path, std::uint64_t size,
                                const Digest128& digest);

class IndexedFiles final : public FileWatch {
 public:
  /// Opens no file yet. `index`: the mapped index, which is watched too.
  IndexedFiles(std::filesystem::path dir, std::vector<IndexedFile> files,
               std::shared_ptr<const MappedFile> index);
  ~IndexedFiles() override;

  const std::vector<IndexedFile>& files() const { return files_; }

  /// A file, which is opened now if it is not open yet. If its identity is not the indexed one, its
  /// bytes are hashed. DataLoss that names the file if it is not the indexed one, or cannot be
  /// read. ResourceExhausted. REQUIRES: there is a file of this number.
  Result<const MappedFile*> Open(std::uint32_t file) const {
    if (const MappedFile* const open = open_[file].load(std::memory_order_acquire)) return open;
    return OpenNow(file);
  }

 private:
  Result<const MappedFile*> OpenNow(std::uint32_t file) const;
  /// Maps a file and makes sure that it is the indexed one.
  Result<std::unique_ptr<const MappedFile>> Map(const IndexedFile& file) const;
  /// Open files, and the index.
  Files MappedNow() const override;
  std::string NameOf(std::uint32_t number) const override;
  Status CompareBytes(std::uint32_t number, const MappedFile& file,
                      const std::stop_token& stop) const override;

  const std::filesystem::path dir_;
  const std::vector<IndexedFile> files_;
  const std::shared_ptr<const MappedFile> index_;
  const Digest128 index_digest_;
  const std::unique_ptr<std::atomic<const MappedFile*>[]> open_;
  mutable Mutex mutex_;  // not taken for files that are open
  mutable std::map<std::uint32_t, std::unique_ptr<const MappedFile>> mapped_
      MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
