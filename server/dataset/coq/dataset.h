// An indexed dataset whose files are mapped when they are first read: what the build of batches
// reads.
//
// Thread-safe. A view of an open file costs one atomic load and stays valid as long as the Dataset.
// The values behind a view come from a file that somebody may overwrite at any moment: load each
// one once (LoadWord), check its range before it is used, and ask Damages() before what was made of
// them is given away.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/system/mutex.h"
#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/coq/scan/node_words.h"
#include "server/dataset/damaged_files.h"
#include "server/files/file_doubts.h"

namespace millrace {

/// One open file, for hot loops: node_words.h tells how to read the words.
struct FileView {
  const std::uint64_t* nodes = nullptr;  // kNodeWords words a node
  const std::uint64_t* edges = nullptr;  // one word an edge
  std::uint32_t node_count = 0;
  std::uint32_t edge_count = 0;
  const std::uint32_t* dependency_files = nullptr;  // FileIds, by the dependency number of an edge
  std::uint32_t dependency_count = 0;
  std::uint64_t node_base = 0;       // nodes of all files before this one
  const std::byte* bytes = nullptr;  // the whole file
  std::uint64_t size = 0;
};

class Dataset {
 public:
  /// Opens no file yet. `dir` is the folder that `index` was made of.
  Dataset(std::filesystem::path dir, std::shared_ptr<const DatasetIndex> index);
  ~Dataset();
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const DatasetIndex& index() const { return *index_; }
  const std::shared_ptr<const DatasetIndex>& shared_index() const { return index_; }
  const std::filesystem::path& dir() const { return dir_; }

  /// The view of a file that is open already, else nullptr (also for a number out of range).
  const FileView* TryView(FileId file) const {
    if (file.value() >= slot_count_) return nullptr;
    return slots_[file.value()].load(std::memory_order_acquire);
  }

  /// The view of a file, opened now where it is not open yet: its size and times are compared with
  /// the index, and where they differ its bytes are hashed. DataLoss naming the file where it is
  /// not the indexed one or cannot be read; OutOfRange for a number that the index does not have.
  Result<const FileView*> View(FileId file) const;

  /// The text of a record of `file`. DataLoss where it does not lie in the file.
  Result<std::string_view> Text(FileId file, TextRef text) const;

  /// Looks at every open file and the index, a call of stat each: whether they are still what was
  /// mapped. Where only times differ, the file is hashed (FileDoubts): that takes 0.2 s for 1 GB in
  /// the page cache, and as long as its disk takes else; `stop` ends it, and what is in doubt stays
  /// so. A file that was changed in place stays damaged, whatever becomes of it. To be called once
  /// a second by those who use a dataset for long. One thread looks, others that would wait for it;
  /// readers do not.
  FileNews CheckFiles(const std::stop_token& stop = {}) const;

  /// Files known to be damaged, by CheckFiles, by a read that found no bytes, or because they could
  /// not be opened. What was read from one counts for nothing; what was read from others is right.
  /// Two atomic loads where there is none.
  std::vector<DamagedFile> Damages() const;

 private:
  struct OpenFile;

  Result<const FileView*> OpenNow(std::uint32_t file) const;
  /// Those that are open and not damaged, and the index.
  std::map<std::uint32_t, const MappedFile*> FilesToLookAt() const;
  /// Whether what is mapped holds what was indexed. Cancelled.
  Status CompareBytes(std::uint32_t number, const MappedFile& file,
                      const std::stop_token& stop) const;
  std::string NameOf(std::uint32_t number) const;
  /// Notes damage that is not known yet.
  void Note(DamagedFile damage) const MILLRACE_REQUIRES(mutex_);
  /// Notes the files whose bytes a read has missed.
  void NoteFaults() const MILLRACE_REQUIRES(mutex_);

  const std::filesystem::path dir_;
  const std::shared_ptr<const DatasetIndex> index_;
  const bool same_host_;  // the index's inodes and times hold here
  const std::uint32_t slot_count_;
  const std::unique_ptr<std::atomic<const FileView*>[]> slots_;
  mutable Mutex looking_;  // taken before mutex_, and held while files are hashed
  mutable FileDoubts doubts_ MILLRACE_GUARDED_BY(looking_);
  mutable Mutex mutex_;  // not taken where files are open and whole
  mutable std::vector<std::unique_ptr<OpenFile>> open_ MILLRACE_GUARDED_BY(mutex_);
  mutable std::map<std::uint32_t, DamagedFile> damaged_ MILLRACE_GUARDED_BY(mutex_);
  mutable std::set<std::uint32_t> told_ MILLRACE_GUARDED_BY(mutex_);  // damaged or replaced
  mutable std::atomic<bool> any_damaged_{false};
};

}  // namespace millrace
