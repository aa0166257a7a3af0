// An indexed Coq dataset, as the build of batches reads it. Its files are mapped when they are
// first read.
//
// Thread-safe. A view of an open file costs one atomic load and stays valid as long as the
// dataset. The values behind a view come from a file that somebody may overwrite at any moment. So
// load each value only once (LoadWord), check its range before it is used, and ask Damages() before
// results made from such values are handed on.
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
#include "server/files/file_watch.h"
#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/scan/node_words.h"
#include "server/source/dataset.h"

namespace millrace {

/// The name of the kind.
inline constexpr std::string_view kCoqKind = "coq";

/// One open file, for hot loops. node_words.h explains how to read the words.
struct FileView {
  const std::uint64_t* nodes = nullptr;  // kNodeWords words for each node
  const std::uint64_t* edges = nullptr;  // one word for each edge
  std::uint32_t node_count = 0;
  std::uint32_t edge_count = 0;
  const std::uint32_t* dependency_files = nullptr;  // FileIds, by the dependency number of an edge
  std::uint32_t dependency_count = 0;
  std::uint64_t node_base = 0;       // nodes of all files before this one
  const std::byte* bytes = nullptr;  // the whole file
  std::uint64_t size = 0;
};

class CoqDataset final : public Dataset, private FileWatch {
 public:
  /// Opens no file yet. `dir` is the folder from which `index` was built.
  CoqDataset(std::filesystem::path dir, std::shared_ptr<const DatasetIndex> index);
  ~CoqDataset() override;
  CoqDataset(const CoqDataset&) = delete;
  CoqDataset& operator=(const CoqDataset&) = delete;

  const DatasetIndex& index() const { return *index_; }

  std::string_view kind() const override { return kCoqKind; }
  const std::filesystem::path& dir() const override { return dir_; }
  Digest128 digest() const override { return index_->digest(); }
  std::uint64_t examples() const override { return index_->outcomes().size(); }
  std::uint64_t file_count() const override { return index_->files().size(); }
  std::vector<DatasetFile> Files() const override;
  std::uint64_t left_out_count() const override { return index_->left_out().size(); }
  std::vector<BadFile> LeftOut(std::size_t most) const override;

  /// The view of a file that is already open. nullptr if it is not open, or if the number is out of
  /// range.
  const FileView* TryView(FileId file) const {
    if (file.value() >= slot_count_) return nullptr;
    return slots_[file.value()].load(std::memory_order_acquire);
  }

  /// The view of a file, which is opened now if it is not open yet. Its size and times are compared
  /// with the index; if they differ, its bytes are hashed. DataLoss that names the file if it is
  /// not the indexed one or cannot be read. OutOfRange if the index has no such number.
  Result<const FileView*> View(FileId file) const;

  /// The text of a record of `file`. DataLoss if the text does not lie in the file.
  Result<std::string_view> Text(FileId file, TextRef text) const;

  /// Checks every open file and the index (FileWatch::Check).
  FileNews CheckFiles(const std::stop_token& stop) const override { return Check(stop); }
  /// Files that could not be opened are damaged, too.
  std::vector<DamagedFile> Damages() const override { return FileWatch::Damages(); }

 private:
  struct OpenFile;

  Result<const FileView*> OpenNow(std::uint32_t file) const;
  /// Open files, and the index.
  FileWatch::Files MappedNow() const override;
  Status CompareBytes(std::uint32_t number, const MappedFile& file,
                      const std::stop_token& stop) const override;
  std::string NameOf(std::uint32_t number) const override;

  const std::filesystem::path dir_;
  const std::shared_ptr<const DatasetIndex> index_;
  const bool same_host_;  // the index was written on this host, so its inodes and times are valid
  const std::uint32_t slot_count_;
  const std::unique_ptr<std::atomic<const FileView*>[]> slots_;
  mutable Mutex mutex_;  // not taken for files that are open
  mutable std::vector<std::unique_ptr<OpenFile>> open_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
