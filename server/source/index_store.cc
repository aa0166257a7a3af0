#include "server/source/index_store.h"

#include <set>

#include "common/base/hash.h"
#include "common/system/mutex.h"
#include "server/files/mapped_file.h"

namespace millrace {

bool IsSameFile(FileIdentity a, const FileIdentity& b) {
  a.device = b.device;
  return a == b;
}

bool HasContent(const std::filesystem::path& path, const FileIdentity& identity,
                const Digest128& digest) {
  if (identity.size == 0) return false;  // and cannot be mapped
  const auto mapped = MappedFile::Open(path, AccessPattern::kSequential);
  if (!mapped.ok() || !IsSameFile(mapped->identity(), identity)) return false;
  return Xxh3(mapped->bytes()) == digest && mapped->CheckIntact().ok();
}

Status NoIndexStatus(const std::filesystem::path& dir) {
  return NotFound(fmt::format("dataset {} has no index; build it with `millrace index {}`",
                              dir.string(), dir.string()));
}

Status VerifyIndexedFiles(const std::filesystem::path& dir, const FilesToVerify& indexed,
                          const DatasetOpenOptions& options) {
  std::set<std::string_view> known;
  std::uint64_t bytes = 0;
  for (const IndexedFile& file : indexed.files) {
    known.insert(file.name);
    bytes += file.size;
  }
  for (const OmittedFile& file : indexed.left_out) known.insert(file.file.name);
  std::vector<BadFile> bad;
  for (const std::string& name : indexed.listing.names) {
    if (!known.contains(name)) bad.push_back({name, "is not in the index"});
  }
  for (const BadFile& file : indexed.listing.bad) {
    if (!known.contains(file.name)) bad.push_back(file);
  }
  ProgressCount progress(options.progress, bytes);
  Mutex mutex;
  ParallelFor(options.threads, indexed.files.size(), [&](std::size_t f) {
    if (options.stop.stop_requested()) return;
    const IndexedFile& file = indexed.files[f];
    std::string difference = DifferenceFromIndex(dir / file.name, file.size, file.digest);
    if (difference.empty() && !indexed.damages.empty()) difference = indexed.damages[f];
    progress.Add(file.size);
    if (difference.empty()) return;
    MutexLock lock(mutex);
    bad.push_back({file.name, std::move(difference)});
  });
  MILLRACE_RETURN_IF_ERROR(CheckIndexStop(options.stop).WithContext("dataset " + dir.string()));
  if (bad.empty()) return OkStatus();
  return BadFilesStatus("dataset " + dir.string() + " differs from its index", std::move(bad));
}

std::string DescribeBuilding(const IndexOutcome& outcome, std::size_t files) {
  return fmt::format("index            {}\n", outcome.file.string()) +
         (outcome.built ? fmt::format("built            in {:.2f} s, {} of {} files as before\n",
                                      outcome.seconds, outcome.unchanged, files)
                        : std::string("fits             as it is\n"));
}

std::string DescribeVerified(std::size_t files, std::uint64_t bytes, const Digest128& digest,
                             std::size_t left_out) {
  std::string text =
      fmt::format("{} files, {} bytes: all as indexed\ndigest {}\n", files, bytes, digest.ToHex());
  if (left_out > 0) text += fmt::format("{} files left out of the index\n", left_out);
  return text;
}

DatasetListing WithIndex(const std::filesystem::path& dir, DatasetListing listing) {
  const Result<FileIdentity> index = IdentifyFile(dir / kIndexFileName);
  if (index.ok()) {
    listing.names.emplace_back(kIndexFileName);
    listing.identities.push_back(*index);
  }
  return listing;
}

}  // namespace millrace
