#include "server/kinds/coq/verify.h"

#include <string>
#include <string_view>
#include <unordered_set>

#include "common/system/mutex.h"
#include "common/system/parallel.h"
#include "server/files/dataset_files.h"
#include "server/files/indexed_files.h"

namespace millrace {
namespace {

// Files in the folder that the index does not know.
std::vector<BadFile> UnknownFiles(const DatasetListing& listing, const DatasetIndex& index) {
  std::unordered_set<std::string_view> indexed;
  for (std::uint32_t f = 0; f < index.files().size(); ++f) indexed.insert(index.file_name(f));
  for (const LeftOutRecord& file : index.left_out()) indexed.insert(index.left_out_name(file));
  std::vector<BadFile> unknown;
  for (const std::string& name : listing.names) {
    if (indexed.count(name) == 0) unknown.push_back({name, "is not in the index"});
  }
  for (const BadFile& file : listing.bad) {
    if (indexed.count(file.name) == 0) unknown.push_back(file);
  }
  return unknown;
}

}  // namespace

Status VerifyDataset(const std::filesystem::path& dir, const DatasetIndex& index,
                     const BuildOptions& options, std::vector<BadFile>* bad) {
  MILLRACE_RETURN_IF_ERROR(index.Verify());
  MILLRACE_ASSIGN_OR_RETURN(const DatasetListing listing, ListDataset(dir));
  std::vector<BadFile> found = UnknownFiles(listing, index);
  std::uint64_t bytes_total = 0;
  for (const FileRecord& file : index.files()) bytes_total += file.size;
  ProgressCount progress(options.progress, bytes_total);
  Mutex mutex;
  ParallelFor(options.threads, index.files().size(), [&](std::size_t f) {
    if (options.stop.stop_requested()) return;
    const FileRecord& record = index.files()[f];
    const std::string name(index.file_name(static_cast<std::uint32_t>(f)));
    std::string difference =
        DifferenceFromIndex(dir / name, record.size, {record.digest_high, record.digest_low});
    if (!difference.empty()) {
      MutexLock lock(mutex);
      found.push_back({name, std::move(difference)});
    }
    progress.Add(record.size);
  });
  MILLRACE_RETURN_IF_ERROR(CheckStop(options).WithContext("dataset " + dir.string()));
  if (bad != nullptr) *bad = found;
  if (found.empty()) return OkStatus();
  return BadFilesStatus("dataset " + dir.string() + " differs from its index", found);
}

}  // namespace millrace
