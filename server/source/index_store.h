// Finds the index of a dataset's folder, checks whether it still fits the files, and builds it if
// necessary. index_place.h says where it is.
//
// An index fits if it has the same files with the same sizes, inodes and times. Otherwise it is
// built anew, but only files that are new or have changed are read as data: a file whose times or
// inode alone differ is hashed, and if its content is the same, its entry in the index is taken
// over.
//
// A kind derives its store from IndexStore, and says what its files are, how one of them is read,
// and how an index of them is written. Its index has
//   static Result<std::shared_ptr<const Index>> Open(const std::filesystem::path&);
//   files()     entries of some type, each with an IndexedFile `file`
//   left_out()  LeftOutFiles
//   same_host() whether identities of files were read on this host
//
// A store is for one thread, which it lends others while it reads. Free functions are thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/system/parallel.h"
#include "server/files/dataset_files.h"
#include "server/files/index_place.h"
#include "server/files/indexed_files.h"
#include "server/source/dataset_kind.h"
#include "server/source/progress.h"

namespace millrace {

/// A report of the work.
struct IndexOutcome {
  std::filesystem::path file;
  bool built = false;             // false: the index was found as it was
  std::uint64_t unchanged = 0;    // files that were taken over from an older index
  double seconds = 0;             // of building
  std::vector<BadFile> bad = {};  // files that are bad, if there is an error
};

/// Whether two identities are of one file. Numbers of devices change with a mount, so they are not
/// compared.
bool IsSameFile(FileIdentity a, const FileIdentity& b);

/// Whether the file at `path` has this identity and, by its digest, this content.
bool HasContent(const std::filesystem::path& path, const FileIdentity& identity,
                const Digest128& digest);

/// NotFound for a folder without an index, with the command that builds it.
Status NoIndexStatus(const std::filesystem::path& dir);

/// What is compared with files by VerifyIndexedFiles.
struct FilesToVerify {
  DatasetListing listing;                 // of the folder
  std::vector<IndexedFile> files;         // of the index, with the digests of their bytes
  std::vector<std::string> damages;       // of each file, if known; empty: none are known
  std::span<const OmittedFile> left_out;  // of the index
};

/// Compares all files with their digests in the index. DataLoss that names each file that differs,
/// is damaged, is gone, or is not in the index. Cancelled.
Status VerifyIndexedFiles(const std::filesystem::path& dir, const FilesToVerify& indexed,
                          const DatasetOpenOptions& options);

/// What commands print of the work on an index of `files` files, and of files that were compared.
std::string DescribeBuilding(const IndexOutcome& outcome, std::size_t files);
std::string DescribeVerified(std::size_t files, std::uint64_t bytes, const Digest128& digest,
                             std::size_t left_out);

/// The listing with the index, if that lies in the folder: what is read while batches are built.
DatasetListing WithIndex(const std::filesystem::path& dir, DatasetListing listing);

/// The index as it is, whether it fits or not. Errors of NoIndexStatus and of Index::Open.
template <class Index>
Result<std::shared_ptr<const Index>> FindIndex(const std::filesystem::path& dir,
                                               const DatasetOpenOptions& options) {
  Status status = OkStatus();
  for (const auto& place : IndexPlaces(dir, options.index_file, options.cache_dir)) {
    Result<std::shared_ptr<const Index>> index = Index::Open(place);
    if (index.ok()) return index;
    if (status.ok() || status.code() == StatusCode::kNotFound) status = index.status();
  }
  return status.code() != StatusCode::kNotFound ? status : NoIndexStatus(dir);
}

/// An index from a time when all files were good, if it has all files that are bad now; otherwise
/// null.
template <class Index>
std::shared_ptr<const Index> IndexOfBetterDays(const std::filesystem::path& dir,
                                               const DatasetOpenOptions& options,
                                               std::span<const std::string> bad) {
  auto index = FindIndex<Index>(dir, options);
  if (!index.ok()) return nullptr;
  const auto& files = (*index)->files();
  const bool knows_all = std::all_of(bad.begin(), bad.end(), [&](const std::string& name) {
    return std::any_of(files.begin(), files.end(),
                       [&](const auto& file) { return file.file.name == name; });
  });
  return knows_all ? *std::move(index) : nullptr;
}

/// `Entry`: what is known of one file, for the index.
template <class Index, class Entry>
class IndexStore {
 public:
  using IndexPtr = std::shared_ptr<const Index>;
  using File = typename std::decay_t<decltype(std::declval<const Index&>().files())>::value_type;
  using ReportBytes = std::function<void(std::uint64_t)>;

  IndexStore(std::filesystem::path dir, const DatasetOpenOptions& options, IndexOutcome& outcome)
      : dir_(std::move(dir)),
        options_(options),
        logger_(options.logger != nullptr ? options.logger : MakeNullLogger()),
        places_(IndexPlaces(dir_, options.index_file, options.cache_dir)),
        outcome_(outcome) {}
  virtual ~IndexStore() = default;
  IndexStore(const IndexStore&) = delete;
  IndexStore& operator=(const IndexStore&) = delete;

  /// The index of the folder. DataLoss that names all bad files, unless options.skip_bad leaves
  /// them out; NotFound, PermissionDenied or InvalidArgument for the folder or the place of the
  /// index; errors of the kind; Cancelled.
  Result<IndexPtr> Run() {
    if (!options_.index_file.empty()) {
      if (IsDataFile(options_.index_file.filename().string())) {
        return InvalidArgument(options_.index_file.string() +
                               ": has the name of a dataset's own file; name another one for the "
                               "index");
      }
      MILLRACE_RETURN_IF_ERROR(CheckReplaceableIndex(options_.index_file, magic()));
    }
    MILLRACE_ASSIGN_OR_RETURN(listing_, List());
    if (!options_.force) {
      if (IndexPtr index = FindFitting()) return Judge(std::move(index));
    }
    MILLRACE_ASSIGN_OR_RETURN(const LockedIndexPlace locked,
                              LockIndexPlace(dir_, places_, options_.stop, *logger_));
    outcome_.file = locked.place;
    if (!options_.force) {
      // Another process may have built the index while it held the lock.
      MILLRACE_ASSIGN_OR_RETURN(listing_, List());
      if (IndexPtr index = FindFitting()) return Judge(std::move(index));
    }
    MILLRACE_ASSIGN_OR_RETURN(IndexPtr built, Build());
    return Judge(std::move(built));
  }

 protected:
  // --- What a kind says --------------------------------------------------------------------------
  /// The first bytes of its indexes.
  virtual std::string_view magic() const = 0;
  /// Whether a file of this last component belongs to datasets.
  virtual bool IsDataFile(std::string_view last) const = 0;
  virtual Result<DatasetListing> List() const = 0;
  /// Looks at all files of the listing before any is read whole. Bad ones are noted by their
  /// numbers.
  virtual Status Prepare(std::vector<std::optional<BadFile>>& /*bad*/) { return OkStatus(); }
  /// Reads a file of the listing. `before`: what an older index says of the file of this name; null
  /// if it has none. DataLoss if it is bad. Called from several threads.
  virtual Result<Entry> Read(std::size_t number, const File* before,
                             const ReportBytes& progress) const = 0;
  /// Whether what an older index says of a file may be taken over if its content is the same.
  /// `same`: its identity is the same too.
  virtual bool MayTakeOver(const File& /*file*/, bool /*same*/) const { return true; }
  /// The entry of a file of the listing that an older index has under number `file`.
  virtual Entry TakeOver(const Index& older, std::uint32_t file, std::size_t number) const = 0;
  /// A reason why an index does not fit, beyond names and identities; empty if there is none.
  virtual std::string WhyAlsoStale(const Index& /*index*/) const { return {}; }
  /// Damage with which a file is bad, but in the index all the same.
  virtual std::optional<BadFile> DamageOf(const Entry& /*entry*/) const { return std::nullopt; }
  virtual Status Write(const std::filesystem::path& place, std::vector<Entry> entries,
                       std::vector<OmittedFile> left_out) const = 0;
  /// The index, or the error about its files.
  virtual Result<IndexPtr> Judge(IndexPtr index) { return index; }
  /// What it counts, for the log: {"records", 17}.
  virtual LogField CountOf(const Index& index) const = 0;
  /// Logs more, after an index was built.
  virtual void ReportMore(const Index& /*index*/) const {}

  // --- What a kind may ask -----------------------------------------------------------------------
  const std::filesystem::path& dir() const { return dir_; }
  const DatasetOpenOptions& options() const { return options_; }
  const DatasetListing& listing() const { return listing_; }
  Logger& logger() const { return *logger_; }
  /// DataLoss that names the files, which the outcome gets too.
  Status BadFilesError(std::vector<BadFile> bad, std::string_view remark) {
    outcome_.bad = bad;
    return BadFilesStatus(fmt::format("dataset {} ({})", dir_.string(), remark), std::move(bad));
  }
  static constexpr std::string_view kSkipBadHelps = "--skip-bad indexes without bad files";

 private:
  /// A file of the folder, as far as it is known.
  struct Known {
    Entry entry;
    bool taken_over = false;
  };

  IndexPtr FindFitting() {
    why_ = "there is none";
    older_ = nullptr;
    for (const std::filesystem::path& place : places_) {
      Result<IndexPtr> index = Index::Open(place);
      if (!index.ok()) {
        if (index.status().code() != StatusCode::kNotFound) why_ = index.status().message();
        continue;
      }
      std::string stale = WhyStale(**index);
      if (stale.empty()) {
        outcome_.file = place;
        return *index;
      }
      if (older_ == nullptr) {
        older_ = *index;
        why_ = std::move(stale);
      }
    }
    return nullptr;
  }

  /// Why an index does not fit the folder; empty if it does.
  std::string WhyStale(const Index& index) const {
    if (!index.same_host()) return "it was built on another host";
    if (!index.left_out().empty() && !options_.skip_bad) {
      return fmt::format("it leaves out {} files, which was not asked for",
                         index.left_out().size());
    }
    if (std::string why = WhyAlsoStale(index); !why.empty()) return why;
    std::map<std::string_view, const std::optional<FileIdentity>*> known;
    for (const File& file : index.files()) known[file.file.name] = &file.file.identity;
    for (const OmittedFile& file : index.left_out()) known[file.file.name] = &file.identity;
    for (std::size_t i = 0; i < listing_.names.size(); ++i) {
      const auto found = known.find(listing_.names[i]);
      if (found == known.end()) return listing_.names[i] + " is new";
      if (!*found->second || !IsSameFile(**found->second, listing_.identities[i])) {
        return listing_.names[i] + " has changed";
      }
      known.erase(found);
    }
    for (const BadFile& file : listing_.bad) {
      const auto found = known.find(file.name);
      if (found == known.end() || *found->second) return file.ToString();
      known.erase(found);
    }
    return known.empty() ? std::string() : fmt::format("{} is gone", known.begin()->first);
  }

  Result<IndexPtr> Build() {
    std::unique_lock<std::mutex> only;
    if (options_.one_build != nullptr) only = std::unique_lock(*options_.one_build);
    const std::string dataset = "dataset " + dir_.string();
    MILLRACE_RETURN_IF_ERROR(CheckIndexStop(options_.stop).WithContext(dataset));
    logger_->Info("building the index",
                  {{"dataset", dir_.string()},
                   {"index", outcome_.file.string()},
                   {"why", options_.force ? std::string("asked for") : why_}});
    const auto began = std::chrono::steady_clock::now();
    std::vector<std::optional<BadFile>> unusable(listing_.names.size());
    MILLRACE_RETURN_IF_ERROR(Prepare(unusable));
    std::vector<Known> known = ReadFiles(unusable);
    MILLRACE_RETURN_IF_ERROR(CheckIndexStop(options_.stop).WithContext(dataset));
    std::vector<Entry> entries;
    std::vector<OmittedFile> left_out;
    std::vector<BadFile> bad = listing_.bad;
    std::size_t damaged = 0;  // of the bad files, those that are in the index all the same
    for (const BadFile& file : listing_.bad) left_out.push_back({file, std::nullopt});
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (unusable[i]) {
        bad.push_back(*unusable[i]);
        left_out.push_back({*unusable[i], listing_.identities[i]});
        continue;
      }
      if (std::optional<BadFile> damage = DamageOf(known[i].entry)) {
        ++damaged;
        bad.push_back(*std::move(damage));
      }
      entries.push_back(std::move(known[i].entry));
      outcome_.unchanged += known[i].taken_over ? 1 : 0;
    }
    if (bad.size() > damaged && (!options_.skip_bad || entries.empty())) {
      return BadFilesError(std::move(bad), options_.skip_bad
                                               ? "no file is left without the bad ones"
                                               : kSkipBadHelps);
    }
    MILLRACE_RETURN_IF_ERROR(Write(outcome_.file, std::move(entries), std::move(left_out)));
    MILLRACE_ASSIGN_OR_RETURN(IndexPtr index, Index::Open(outcome_.file));
    outcome_.built = true;
    outcome_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    Report(*index);
    return index;
  }

  std::vector<Known> ReadFiles(std::vector<std::optional<BadFile>>& unusable) {
    std::uint64_t bytes = 0;
    for (const FileIdentity& identity : listing_.identities) bytes += identity.size;
    ProgressCount progress(options_.progress, bytes);
    std::unordered_map<std::string_view, std::uint32_t> older;
    for (std::uint32_t f = 0; older_ != nullptr && f < older_->files().size(); ++f) {
      older.emplace(older_->files()[f].file.name, f);
    }
    std::vector<Known> known(listing_.names.size());
    ParallelFor(options_.threads, known.size(), [&](std::size_t i) {
      if (unusable[i] || options_.stop.stop_requested()) return;
      const auto found = older.find(listing_.names[i]);
      const File* const before = found == older.end() ? nullptr : &older_->files()[found->second];
      if (!options_.force && before != nullptr && IsUnchanged(*before, i)) {
        known[i] = {TakeOver(*older_, found->second, i), true};
        progress.Add(listing_.identities[i].size);
        return;
      }
      Result<Entry> entry =
          Read(i, before, [&progress](std::uint64_t done) { progress.Add(done); });
      if (entry.ok()) {
        known[i].entry = *std::move(entry);
      } else {
        unusable[i] = BadFile{listing_.names[i], entry.status().message()};
      }
    });
    return known;
  }

  /// Whether what the older index says of a file can be taken over.
  bool IsUnchanged(const File& before, std::size_t number) const {
    const FileIdentity& now = listing_.identities[number];
    if (before.file.size != now.size) return false;
    const bool same = before.file.identity && IsSameFile(*before.file.identity, now);
    if (!MayTakeOver(before, same)) return false;
    return same || HasContent(dir_ / listing_.names[number], now, before.file.digest);
  }

  void Report(const Index& index) const {
    logger_->Info("index built", {{"dataset", dir_.string()},
                                  {"files", index.files().size()},
                                  {"unchanged_files", outcome_.unchanged},
                                  CountOf(index),
                                  {"seconds", outcome_.seconds}});
    ReportMore(index);
    for (const OmittedFile& file : index.left_out()) {
      logger_->Warning("file left out", {{"dataset", dir_.string()},
                                         {"file", Escaped(file.file.name)},
                                         {"why", file.file.reason}});
    }
  }

  const std::filesystem::path dir_;
  const DatasetOpenOptions& options_;
  const std::shared_ptr<Logger> logger_;
  const std::vector<std::filesystem::path> places_;
  IndexOutcome& outcome_;
  DatasetListing listing_;
  std::string why_;  // why no index fits
  IndexPtr older_;   // an index that does not fit
};

}  // namespace millrace
