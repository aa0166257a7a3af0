#include "server/kinds/records/index/records_index_store.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/system/mutex.h"
#include "common/system/parallel.h"
#include "server/files/index_place.h"
#include "server/kinds/records/index/records_scan.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using RecordsIndexPtr = std::shared_ptr<const RecordsIndex>;

/// Numbers of devices change with a mount, so they are not compared.
bool SameFile(FileIdentity a, const FileIdentity& b) {
  a.device = b.device;
  return a == b;
}

class RecordsStore {
 public:
  RecordsStore(const fs::path& dir, const DatasetOpenOptions& options, RecordsIndexOutcome& outcome)
      : dir_(dir),
        options_(options),
        logger_(options.logger != nullptr ? options.logger : MakeNullLogger()),
        places_(IndexPlaces(dir, options.index_file, options.cache_dir)),
        outcome_(outcome) {}

  Result<RecordsIndexPtr> Run() {
    if (!options_.index_file.empty()) {
      if (IsRecordsFile(options_.index_file.filename().string())) {
        return InvalidArgument(options_.index_file.string() +
                               ": has the name of a dataset's own file; name another one for the "
                               "index");
      }
      MILLRACE_RETURN_IF_ERROR(CheckReplaceableIndex(
          options_.index_file, {kRecordsIndexMagic, sizeof(kRecordsIndexMagic)}));
    }
    MILLRACE_ASSIGN_OR_RETURN(listing_, ListRecords(dir_));
    if (!options_.force) {
      if (RecordsIndexPtr index = FindFitting()) return Judge(std::move(index));
    }
    MILLRACE_ASSIGN_OR_RETURN(const LockedIndexPlace locked,
                              LockIndexPlace(dir_, places_, options_.stop, *logger_));
    outcome_.file = locked.place;
    if (!options_.force) {
      // Another process may have built the index while it held the lock.
      MILLRACE_ASSIGN_OR_RETURN(listing_, ListRecords(dir_));
      if (RecordsIndexPtr index = FindFitting()) return Judge(std::move(index));
    }
    MILLRACE_ASSIGN_OR_RETURN(RecordsIndexPtr built, Build());
    return Judge(std::move(built));
  }

 private:
  /// A file of the folder, as far as it is known.
  struct Known {
    ScannedRecords scanned;
    std::optional<BadFile> bad;
    bool taken_over = false;
  };

  /// The index, or the error about the damaged records of its files.
  Result<RecordsIndexPtr> Judge(RecordsIndexPtr index) {
    std::vector<BadFile> bad;
    for (const RecordsFile& file : index->files()) {
      if (file.damage) bad.push_back({file.file.name, file.damage->first});
    }
    if (bad.empty()) return index;
    outcome_.bad = bad;
    outcome_.with_damage = std::move(index);
    return BadFilesStatus(
        fmt::format("dataset {} (--skip-bad indexes without bad files)", dir_.string()),
        std::move(bad));
  }

  RecordsIndexPtr FindFitting() {
    why_ = "there is none";
    older_ = nullptr;
    for (const fs::path& place : places_) {
      Result<RecordsIndexPtr> index = RecordsIndex::Open(place);
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
  std::string WhyStale(const RecordsIndex& index) const {
    if (!index.same_host()) return "it was built on another host";
    if (!index.left_out().empty() && !options_.skip_bad) {
      return fmt::format("it leaves out {} files, which was not asked for",
                         index.left_out().size());
    }
    std::map<std::string_view, const std::optional<FileIdentity>*> known;
    for (const RecordsFile& file : index.files()) {
      if (file.damage && options_.skip_bad) return file.file.name + " has damaged records";
    }
    for (const RecordsFile& file : index.files()) known[file.file.name] = &file.file.identity;
    for (const LeftOutRecordsFile& file : index.left_out()) {
      known[file.file.name] = &file.identity;
    }
    for (std::size_t i = 0; i < listing_.names.size(); ++i) {
      const auto found = known.find(listing_.names[i]);
      if (found == known.end()) return listing_.names[i] + " is new";
      if (!*found->second || !SameFile(**found->second, listing_.identities[i])) {
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

  Result<RecordsIndexPtr> Build() {
    std::unique_lock<std::mutex> only;
    if (options_.one_build != nullptr) only = std::unique_lock(*options_.one_build);
    std::string dataset = "dataset " + dir_.string();
    MILLRACE_RETURN_IF_ERROR(CheckIndexStop(options_.stop).WithContext(dataset));
    logger_->Info("building the index",
                  {{"dataset", dir_.string()},
                   {"index", outcome_.file.string()},
                   {"why", options_.force ? std::string("asked for") : why_}});
    const auto began = std::chrono::steady_clock::now();
    const std::vector<Known> known = ReadFiles();
    MILLRACE_RETURN_IF_ERROR(CheckIndexStop(options_.stop).WithContext(dataset));
    RecordsIndexContent content;
    std::vector<std::vector<std::uint64_t>> offsets;
    std::vector<BadFile> bad = listing_.bad;
    std::size_t damaged = 0;  // of the bad files, those with damaged records
    for (const BadFile& file : listing_.bad) content.left_out.push_back({file, std::nullopt});
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i].bad) {
        bad.push_back(*known[i].bad);
        content.left_out.push_back({*known[i].bad, listing_.identities[i]});
        continue;
      }
      const RecordsFile& file = known[i].scanned.file;
      if (file.damage) {
        ++damaged;
        bad.push_back({file.file.name, file.damage->first});
      }
      content.files.push_back(known[i].scanned.file);
      offsets.push_back(known[i].scanned.offsets);
      outcome_.unchanged += known[i].taken_over ? 1 : 0;
    }
    if (bad.size() > damaged && (!options_.skip_bad || content.files.empty())) {
      outcome_.bad = bad;
      dataset += options_.skip_bad ? " (no file is left without the bad ones)"
                                   : " (--skip-bad indexes without bad files)";
      return BadFilesStatus(dataset, std::move(bad));
    }
    MILLRACE_RETURN_IF_ERROR(RecordsIndex::Write(outcome_.file, content, offsets));
    MILLRACE_ASSIGN_OR_RETURN(RecordsIndexPtr index, RecordsIndex::Open(outcome_.file));
    outcome_.built = true;
    outcome_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    Report(*index);
    return index;
  }

  std::vector<Known> ReadFiles() {
    std::uint64_t bytes = 0;
    for (const FileIdentity& identity : listing_.identities) bytes += identity.size;
    ProgressCount progress(options_.progress, bytes);
    std::unordered_map<std::string_view, std::uint32_t> older;
    for (std::uint32_t f = 0; older_ != nullptr && f < older_->files().size(); ++f) {
      older.emplace(older_->files()[f].file.name, f);
    }
    std::vector<Known> known(listing_.names.size());
    ParallelFor(options_.threads, known.size(), [&](std::size_t i) {
      if (options_.stop.stop_requested()) return;
      const auto found = older.find(listing_.names[i]);
      if (!options_.force && found != older.end() && TakeOver(found->second, i, known[i])) {
        progress.Add(listing_.identities[i].size);
        return;
      }
      Result<ScannedRecords> scanned =
          ScanRecords(dir_, listing_.names[i], listing_.identities[i], options_.stop,
                      [&progress](std::uint64_t done) { progress.Add(done); });
      if (!scanned.ok()) {
        known[i].bad = BadFile{listing_.names[i], scanned.status().message()};
      } else if (scanned->file.damage && options_.skip_bad) {
        known[i].bad = BadFile{listing_.names[i], scanned->file.damage->first};
      } else {
        known[i].scanned = *std::move(scanned);
        if (found != older.end()) KeepDigest(older_->files()[found->second], known[i].scanned.file);
      }
    });
    return known;
  }

  /// Lets a file with damaged records have the digest from before the damage, if it was the same
  /// file apart from it.
  static void KeepDigest(const RecordsFile& before, RecordsFile& now) {
    if (!now.damage || !before.frames || before.frames != now.frames) return;
    if (before.file.size == now.file.size) now.file.digest = before.file.digest;
  }

  /// Takes over what the older index says of a file, if the file is the same.
  bool TakeOver(std::uint32_t number, std::size_t place, Known& known) const {
    const RecordsFile& record = older_->files()[number];
    const FileIdentity& now = listing_.identities[place];
    if (record.file.size != now.size || (record.damage && options_.skip_bad)) return false;
    if (!record.file.identity || !SameFile(*record.file.identity, now)) {
      // Whether records are damaged still has to be read.
      if (now.size == 0 || record.damage) return false;
      const auto mapped =
          MappedFile::Open(dir_ / listing_.names[place], AccessPattern::kSequential);
      if (!mapped.ok() || !SameFile(mapped->identity(), now)) return false;
      if (Xxh3(mapped->bytes()) != record.file.digest || !mapped->CheckIntact().ok()) return false;
    }
    known.scanned = {record, older_->OffsetsOf(number)};
    known.scanned.file.file.identity = now;
    known.taken_over = true;
    return true;
  }

  void Report(const RecordsIndex& index) const {
    logger_->Info("index built", {{"dataset", dir_.string()},
                                  {"files", index.files().size()},
                                  {"unchanged_files", outcome_.unchanged},
                                  {"records", index.records()},
                                  {"seconds", outcome_.seconds}});
    for (const RecordsFile& file : index.files()) {
      if (!file.damage) continue;
      logger_->Warning("file has damaged records", {{"dataset", dir_.string()},
                                                    {"file", Escaped(file.file.name)},
                                                    {"records", file.damage->count},
                                                    {"first", file.damage->first}});
    }
    for (const LeftOutRecordsFile& file : index.left_out()) {
      logger_->Warning("file left out", {{"dataset", dir_.string()},
                                         {"file", Escaped(file.file.name)},
                                         {"why", file.file.reason}});
    }
  }

  const fs::path& dir_;
  const DatasetOpenOptions& options_;
  const std::shared_ptr<Logger> logger_;
  const std::vector<fs::path> places_;
  RecordsIndexOutcome& outcome_;
  DatasetListing listing_;
  std::string why_;        // why no index fits
  RecordsIndexPtr older_;  // an index that does not fit
};

}  // namespace

Result<RecordsIndexPtr> OpenOrBuildRecordsIndex(const fs::path& dir,
                                                const DatasetOpenOptions& options,
                                                RecordsIndexOutcome& outcome) {
  return RecordsStore(dir, options, outcome).Run();
}

Result<RecordsIndexPtr> FindRecordsIndex(const fs::path& dir, const DatasetOpenOptions& options) {
  MILLRACE_RETURN_IF_ERROR(ListRecords(dir).status());
  Status status = OkStatus();
  for (const fs::path& place : IndexPlaces(dir, options.index_file, options.cache_dir)) {
    Result<RecordsIndexPtr> index = RecordsIndex::Open(place);
    if (index.ok()) return index;
    if (status.ok() || status.code() == StatusCode::kNotFound) status = index.status();
  }
  if (status.code() != StatusCode::kNotFound) return status;
  return NotFound(fmt::format("dataset {} has no index; build it with `millrace index {}`",
                              dir.string(), dir.string()));
}

Status VerifyRecords(const fs::path& dir, const RecordsIndex& index,
                     const DatasetOpenOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const DatasetListing listing, ListRecords(dir));
  std::set<std::string_view> indexed;
  std::uint64_t bytes = 0;
  for (const RecordsFile& file : index.files()) {
    indexed.insert(file.file.name);
    bytes += file.file.size;
  }
  for (const LeftOutRecordsFile& file : index.left_out()) indexed.insert(file.file.name);
  std::vector<BadFile> bad;
  for (const std::string& name : listing.names) {
    if (!indexed.contains(name)) bad.push_back({name, "is not in the index"});
  }
  for (const BadFile& file : listing.bad) {
    if (!indexed.contains(file.name)) bad.push_back(file);
  }
  ProgressCount progress(options.progress, bytes);
  Mutex mutex;
  ParallelFor(options.threads, index.files().size(), [&](std::size_t f) {
    if (options.stop.stop_requested()) return;
    const IndexedFile& file = index.files()[f].file;
    const std::optional<DamagedRecords>& damage = index.files()[f].damage;
    std::string difference =
        DifferenceFromIndex(dir / file.name, file.size, damage ? damage->content : file.digest);
    if (difference.empty() && damage) difference = damage->first;
    progress.Add(file.size);
    if (difference.empty()) return;
    MutexLock lock(mutex);
    bad.push_back({file.name, std::move(difference)});
  });
  MILLRACE_RETURN_IF_ERROR(CheckIndexStop(options.stop).WithContext("dataset " + dir.string()));
  if (bad.empty()) return OkStatus();
  return BadFilesStatus("dataset " + dir.string() + " differs from its index", std::move(bad));
}

}  // namespace millrace
