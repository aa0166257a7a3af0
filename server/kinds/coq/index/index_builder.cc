#include "server/kinds/coq/index/index_builder.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "common/system/mutex.h"
#include "common/system/parallel.h"
#include "server/kinds/coq/index/blob_spool.h"
#include "server/kinds/coq/index/index_assembler.h"
#include "server/kinds/coq/index/index_reuse.h"
#include "server/kinds/coq/index/left_out.h"
#include "server/kinds/coq/index/topological_order.h"
#include "server/kinds/coq/scan/file_scanner.h"

namespace millrace {
namespace {

// Memory of this process without mapped files; 0 if the system does not tell.
std::uint64_t OwnMemoryBytes() {
  std::ifstream status("/proc/self/status");
  std::string key;
  std::uint64_t kilobytes = 0;
  while (status >> key) {
    if (key == "RssAnon:" && status >> kilobytes) return kilobytes * 1024;
    std::getline(status, key);
  }
  return 0;
}

// The folder that holds an index file.
std::filesystem::path FolderOf(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

// The first half of building: scans every file by itself, then resolves the references between
// files.
class IndexBuilder {
 public:
  IndexBuilder(const std::filesystem::path& dir, const BuildOptions& options)
      : dir_(dir), options_(options) {
    report_.threads =
        options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  }

  Result<IndexReport> Run(const std::filesystem::path& index, std::vector<BadFile>* bad) {
    const auto began = std::chrono::steady_clock::now();
    MILLRACE_ASSIGN_OR_RETURN(listing_, ListDataset(dir_));
    std::sort(listing_.bad.begin(), listing_.bad.end(),
              [](const BadFile& a, const BadFile& b) { return NameLess(a.name, b.name); });
    dataset_.names = listing_.names;
    // Places beyond those of the listing are bad files. They cannot be scanned, but other files may
    // name them.
    for (const BadFile& file : listing_.bad) {
      AddBad(static_cast<std::uint32_t>(dataset_.names.size()), file.reason);
      dataset_.names.push_back(file.name);
    }
    MILLRACE_ASSIGN_OR_RETURN(BlobSpool spool, BlobSpool::Create(FolderOf(index)));
    if (options_.older != nullptr) reuse_.emplace(options_.older);
    MILLRACE_RETURN_IF_ERROR(ScanAll(spool).WithContext("dataset " + dir_.string()));
    CheckTargets();
    OrderAll();
    MILLRACE_RETURN_IF_ERROR(ReconcileBad(bad));
    report_.left_out_files = dataset_.left_out.size();
    report_.dataset_bytes = 0;
    for (const std::uint32_t place : dataset_.order) {
      report_.dataset_bytes += listing_.identities[place].size;
      report_.unchanged_files += places_[place].older != kNoRef ? 1 : 0;
    }
    const auto blob_of = [&](std::uint32_t place) -> Result<FileBlob> {
      const Place& from = places_[place];
      if (from.older != kNoRef) return reuse_->Blob(from.older);
      return spool.Get(from.spooled);
    };
    const Status assembled = AssembleIndex(
        dataset_, blob_of, index, options_, [this] { SampleMemory(); }, report_);
    if (!assembled.ok()) return assembled.WithContext("dataset " + dir_.string());
    MutexLock lock(mutex_);
    report_.peak_memory_bytes = peak_memory_;
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return report_;
  }

 private:
  static constexpr std::uint64_t kNoBlob = ~std::uint64_t{0};

  // Where a file's blob comes from. A bad file has no source.
  struct Place {
    std::uint64_t spooled = kNoBlob;
    std::uint32_t older = kNoRef;  // its number in the older index
  };

  std::uint32_t Count() const { return static_cast<std::uint32_t>(listing_.names.size()); }

  bool IsGood(std::uint32_t place) const {
    return place < Count() && (places_[place].older != kNoRef || places_[place].spooled != kNoBlob);
  }

  // If a file has several reasons, only the first is kept.
  void AddBad(std::uint32_t place, std::string reason, LeftOutWhy why = LeftOutWhy::kBad) {
    MutexLock lock(mutex_);
    bad_.try_emplace(place, BadReason{std::move(reason), why});
  }

  std::map<std::uint32_t, BadReason> Bad() {
    MutexLock lock(mutex_);
    return bad_;
  }

  // Handles bad files as the options say: fails, or leaves them out.
  Status ReconcileBad(std::vector<BadFile>* bad_files) {
    std::map<std::uint32_t, BadReason> bad;
    bool can_go_on = true;
    do {
      bad = Bad();
      if (!bad.empty() && options_.skip_bad) LeaveOut(bad);
      can_go_on = bad.empty() || (options_.skip_bad && !dataset_.order.empty());
      if (can_go_on) ReadTexts();
    } while (Bad().size() != bad.size());  // reading a text may have found another bad file
    if (can_go_on) return OkStatus();
    std::vector<BadFile> all;
    for (const auto& [place, because] : bad) {
      all.push_back({dataset_.names[place], because.reason});
    }
    if (bad_files != nullptr) *bad_files = all;
    return BadFilesStatus(
        fmt::format("dataset {} ({})", dir_.string(),
                    options_.skip_bad
                        ? "no file is left without the bad ones and those that need them"
                        : "--skip-bad indexes without bad files and those that need them"),
        std::move(all));
  }

  void LeaveOut(const std::map<std::uint32_t, BadReason>& bad) {
    std::vector<std::span<const std::uint32_t>> dependencies(dataset_.names.size());
    for (std::uint32_t f = 0; f < Count(); ++f) {
      if (!bad.contains(f)) dependencies[f] = dataset_.summaries[f].dependencies;
    }
    std::vector<LeftOutPlace> places = FindLeftOut({dataset_.names, dependencies}, bad);
    std::vector<bool> left_out(dataset_.names.size(), false);
    dataset_.left_out.clear();
    for (LeftOutPlace& file : places) {
      left_out[file.place] = true;
      dataset_.left_out.push_back(
          {.name = dataset_.names[file.place],
           .reason = std::move(file.because.reason),
           .why = file.because.why,
           .identity = file.place < Count() ? listing_.identities[file.place] : FileIdentity{}});
    }
    std::sort(dataset_.left_out.begin(), dataset_.left_out.end(),
              [](const LeftOutFile& a, const LeftOutFile& b) { return NameLess(a.name, b.name); });
    std::erase_if(dataset_.order, [&](std::uint32_t place) { return left_out[place]; });
  }

  // Notes an error that ends the whole build at once, unlike a bad file.
  void Fail(Status status) {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
  }

  Status failure() {
    MutexLock lock(mutex_);
    return failure_;
  }

  // Scans the largest files first, so that no thread is left with a large one at the end.
  Status ScanAll(BlobSpool& spool) {
    NameTable names;
    // Files that are already known to be bad still get their names here: a file that depends on one
    // of them names an existing file.
    for (std::uint32_t f = 0; f < dataset_.names.size(); ++f) names.emplace(dataset_.names[f], f);

    dataset_.summaries.resize(Count());
    places_.assign(Count(), {});
    std::vector<std::uint32_t> by_size(Count());
    std::iota(by_size.begin(), by_size.end(), 0u);
    std::sort(by_size.begin(), by_size.end(), [&](std::uint32_t a, std::uint32_t b) {
      return listing_.identities[a].size > listing_.identities[b].size;
    });
    for (const FileIdentity& file : listing_.identities) report_.dataset_bytes += file.size;
    ProgressCount progress(options_.progress, report_.dataset_bytes);
    ParallelFor(report_.threads, by_size.size(), [&](std::size_t i) {
      if (!failure().ok()) return;
      if (Status stopped = CheckStop(options_); !stopped.ok()) return Fail(std::move(stopped));
      if (!TakeOver(by_size[i], names)) ScanOne(by_size[i], names, spool);
      progress.Add(listing_.identities[by_size[i]].size);
    });
    MILLRACE_RETURN_IF_ERROR(failure());
    // The older index does not say how far a file's references reach. So a file has to be scanned
    // again if a file that it depends on has become smaller.
    const std::vector<std::uint32_t> outgrown = Outgrown();
    ParallelFor(report_.threads, outgrown.size(), [&](std::size_t i) {
      if (!failure().ok()) return;
      places_[outgrown[i]] = {};
      dataset_.summaries[outgrown[i]] = {};
      ScanOne(outgrown[i], names, spool);
    });
    return failure();
  }

  // Takes over the older index's records of a file. False if the file has to be scanned.
  bool TakeOver(std::uint32_t place, const NameTable& names) {
    if (!reuse_) return false;
    const std::uint32_t older = reuse_->Find(listing_.names[place]);
    if (older == kNoRef || !reuse_->IsUnchanged(dir_, older, listing_.identities[place])) {
      return false;
    }
    FileSummary& summary = dataset_.summaries[place];
    summary.identity = listing_.identities[place];
    const Status status = reuse_->Summarize(older, names, summary);
    if (status.ok()) {
      places_[place].older = older;
    } else {
      AddBad(place, status.message());
    }
    return true;
  }

  // Finds unchanged files with a dependency that now has fewer nodes than before.
  std::vector<std::uint32_t> Outgrown() const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t f = 0; f < Count(); ++f) {
      const std::uint32_t older = places_[f].older;
      if (older == kNoRef) continue;
      const std::vector<std::uint32_t>& dependencies = dataset_.summaries[f].dependencies;
      for (std::size_t d = 1; d < dependencies.size(); ++d) {
        const std::uint32_t target = dependencies[d];
        if (!IsGood(target)) continue;
        const std::uint32_t nodes = dataset_.summaries[target].node_count;
        if (nodes >= reuse_->NodesOfDependency(older, d)) continue;
        found.push_back(f);
        break;
      }
    }
    return found;
  }

  // Reads missing tactic texts. The text of a tactic comes from the first file that has it, which
  // may have been a later file in the older index.
  void ReadTexts() {
    if (!reuse_) return;
    std::set<std::int64_t> met;
    const auto meet = [&](std::uint32_t place, FileTactic& tactic) {
      if (!met.insert(tactic.ident).second || tactic.text_step == kNoRef) return;
      Result<std::string> text = reuse_->ReadBaseText(dir_, tactic.text_step);
      if (!text.ok()) return AddBad(place, text.status().message());
      tactic.base_text = std::move(text).value();
      tactic.text_step = kNoRef;
    };
    for (const std::uint32_t place : dataset_.order) {
      FileSummary& file = dataset_.summaries[place];
      for (const std::uint32_t t : file.tactics_with_outcomes) meet(place, file.tactics[t]);
    }
    for (const std::uint32_t place : dataset_.order) {
      for (FileTactic& tactic : dataset_.summaries[place].tactics) meet(place, tactic);
    }
  }

  void ScanOne(std::uint32_t place, const NameTable& names, BlobSpool& spool) {
    FileBlob blob;
    const std::string& name = listing_.names[place];
    const Status status = ScanFile(dir_, name, place, names, dataset_.summaries[place], blob);
    if (status.code() == StatusCode::kResourceExhausted) return Fail(status.WithContext(name));
    if (!status.ok()) {
      return AddBad(
          place, status.message(),
          status.code() == StatusCode::kDataLoss ? LeftOutWhy::kBad : LeftOutWhy::kUnreadable);
    }
    SampleMemory();
    const Result<std::uint64_t> put = spool.Put(blob);
    if (!put.ok()) return Fail(put.status());
    places_[place].spooled = *put;
  }

  void SampleMemory() {
    const std::uint64_t bytes = OwnMemoryBytes();
    MutexLock lock(mutex_);
    peak_memory_ = std::max(peak_memory_, bytes);
  }

  // Checks references to nodes of other files, now that the sizes of those files are known.
  void CheckTargets() {
    for (std::uint32_t f = 0; f < Count(); ++f) {
      if (!IsGood(f)) continue;
      const FileSummary& file = dataset_.summaries[f];
      for (std::size_t d = 1; d < file.dependencies.size(); ++d) {
        const std::uint32_t target = file.dependencies[d];
        if (!IsGood(target)) continue;
        const std::uint32_t nodes = dataset_.summaries[target].node_count;
        if (file.targets[d].needed_nodes <= nodes) continue;
        AddBad(f, fmt::format("at byte {}: refers to node {} of {}, which has {}",
                              file.targets[d].offset, file.targets[d].needed_nodes - 1,
                              listing_.names[target], nodes));
        break;
      }
    }
  }

  void OrderAll() {
    std::vector<OrderedFile> files(Count());
    for (std::uint32_t f = 0; f < Count(); ++f) {
      files[f] = {.size = dataset_.summaries[f].identity.size, .name = listing_.names[f]};
      if (IsGood(f)) files[f].dependencies = dataset_.summaries[f].dependencies;
    }
    TopologicalOrder order = OrderFiles(files);
    for (const std::uint32_t f : order.cyclic) {
      AddBad(f, fmt::format("is on a cycle of dependencies of {} files", order.cyclic.size()));
    }
    dataset_.order = std::move(order.order);
  }

  const std::filesystem::path& dir_;
  const BuildOptions& options_;
  IndexReport report_;
  DatasetListing listing_;
  ScannedDataset dataset_;
  std::vector<Place> places_;  // one for each file, in the order of the listing
  std::optional<IndexReuse> reuse_;

  Mutex mutex_;
  std::map<std::uint32_t, BadReason> bad_ MILLRACE_GUARDED_BY(mutex_);  // by place
  Status failure_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t peak_memory_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace

Result<IndexReport> BuildIndex(const std::filesystem::path& dir, const std::filesystem::path& index,
                               const BuildOptions& options, std::vector<BadFile>* bad) {
  return IndexBuilder(dir, options).Run(index, bad);
}

}  // namespace millrace
