#include "server/kinds/coq/index/index_store.h"

#include <optional>
#include <utility>

#include <fmt/core.h>

#include "server/files/index_place.h"
#include "server/kinds/coq/index/index_format.h"
#include "server/kinds/coq/index/index_freshness.h"
#include "server/kinds/coq/index/left_out.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using IndexPtr = std::shared_ptr<const DatasetIndex>;

std::vector<fs::path> PlacesOfIndex(const fs::path& dir, const IndexOptions& options) {
  return IndexPlaces(dir, options.index_file, options.cache_dir);
}

// Refuses also names of dataset files.
Status CheckReplaceable(const fs::path& file) {
  if (file.extension() == ".bin") {
    return InvalidArgument(file.string() +
                           ": *.bin files are a dataset's own; name another file for the index");
  }
  return CheckReplaceableIndex(file, {kIndexMagic, sizeof(kIndexMagic)});
}

class Store {
 public:
  Store(const fs::path& dir, const IndexOptions& options)
      : dir_(dir),
        options_(options),
        logger_(options.logger != nullptr ? options.logger : MakeNullLogger()),
        places_(PlacesOfIndex(dir, options)) {}

  Result<IndexPtr> Run(CoqIndexOutcome& outcome) {
    if (!options_.index_file.empty()) {
      MILLRACE_RETURN_IF_ERROR(CheckReplaceable(options_.index_file));
    }
    MILLRACE_ASSIGN_OR_RETURN(listing_, ListDataset(dir_));
    if (!options_.force) {
      if (IndexPtr index = FindFitting(outcome)) return index;
    }
    MILLRACE_ASSIGN_OR_RETURN(const LockedIndexPlace locked,
                              LockIndexPlace(dir_, places_, options_.build.stop, *logger_));
    outcome.file = locked.place;
    if (!options_.force) {
      // Another process may have built the index while it held the lock.
      MILLRACE_ASSIGN_OR_RETURN(listing_, ListDataset(dir_));
      if (IndexPtr index = FindFitting(outcome)) return index;
      if (IndexPtr index = Renew(outcome.file)) return index;
    }
    return Build(outcome);
  }

 private:
  // Finds an index that fits as it is. Otherwise remembers one that may fit once touched files are
  // hashed, and why others do not fit.
  IndexPtr FindFitting(CoqIndexOutcome& outcome) {
    why_ = "there is none";
    renewable_.reset();
    older_.reset();
    for (const fs::path& place : places_) {
      Result<IndexPtr> index = DatasetIndex::Open(place);
      if (!index.ok()) {
        if (index.status().code() != StatusCode::kNotFound) why_ = index.status().message();
        continue;
      }
      IndexFreshness freshness = CompareWithListing(**index, listing_);
      if (freshness.stale.empty()) {
        freshness.stale = WhyLeftOutIsStale(dir_, **index, listing_, options_.build.skip_bad);
      }
      if (freshness.fits()) {
        outcome.file = place;
        return *index;
      }
      if (!older_) older_ = *index;
      if (!freshness.stale.empty()) {
        why_ = freshness.stale;
      } else if (!renewable_) {
        renewable_ = Renewable{*index, place, std::move(freshness.touched)};
      }
    }
    return nullptr;
  }

  // Hashes the touched files, and writes the present inodes and times into the index. nullptr if
  // contents differ.
  IndexPtr Renew(const fs::path& place) {
    if (!renewable_) return nullptr;
    why_ = HashTouched(dir_, *renewable_->index, renewable_->touched, options_.build);
    if (!why_.empty()) return nullptr;
    const Status status = RenewIndex(*renewable_->index, renewable_->file, place, listing_);
    if (!status.ok()) {
      why_ = status.message();
      return nullptr;
    }
    logger_->Info("index renewed: inodes or times of files changed, their contents did not",
                  {{"dataset", dir_.string()},
                   {"index", place.string()},
                   {"hashed_files", renewable_->touched.size()}});
    Result<IndexPtr> index = DatasetIndex::Open(place);
    return index.ok() ? *index : nullptr;
  }

  Result<IndexPtr> Build(CoqIndexOutcome& outcome) {
    std::unique_lock<std::mutex> only;
    if (options_.one_build != nullptr) only = std::unique_lock(*options_.one_build);
    MILLRACE_RETURN_IF_ERROR(CheckStop(options_.build).WithContext("dataset " + dir_.string()));
    logger_->Info("building the index",
                  {{"dataset", dir_.string()},
                   {"index", outcome.file.string()},
                   {"why", options_.force ? std::string("asked for") : why_}});
    BuildOptions build = options_.build;
    // Records of a damaged index are not taken over.
    if (older_ && older_->Verify().ok()) build.older = std::move(older_);
    MILLRACE_ASSIGN_OR_RETURN(outcome.report, BuildIndex(dir_, outcome.file, build, options_.bad));
    outcome.built = true;
    logger_->Info("index built", {{"dataset", dir_.string()},
                                  {"files", outcome.report.files},
                                  {"unchanged_files", outcome.report.unchanged_files},
                                  {"nodes", outcome.report.nodes},
                                  {"proof_states", outcome.report.proof_states},
                                  {"index_bytes", outcome.report.index_bytes},
                                  {"seconds", outcome.report.seconds}});
    Result<IndexPtr> index = DatasetIndex::Open(outcome.file);
    if (!index.ok()) return index;
    for (const LeftOutRecord& file : (*index)->left_out()) {
      logger_->Warning("file left out", {{"dataset", dir_.string()},
                                         {"file", Escaped((*index)->left_out_name(file))},
                                         {"why", (*index)->left_out_reason(file)}});
    }
    return index;
  }

  struct Renewable {
    IndexPtr index;
    fs::path file;
    std::vector<std::uint32_t> touched;
  };

  const fs::path& dir_;
  const IndexOptions& options_;
  const std::shared_ptr<Logger> logger_;
  const std::vector<fs::path> places_;
  DatasetListing listing_;
  std::string why_;  // why no index fits
  IndexPtr older_;   // an index that does not fit
  std::optional<Renewable> renewable_;
};

}  // namespace

Result<IndexPtr> OpenOrBuildIndex(const fs::path& dir, const IndexOptions& options,
                                  CoqIndexOutcome* outcome) {
  CoqIndexOutcome unasked;
  return Store(dir, options).Run(outcome != nullptr ? *outcome : unasked);
}

Result<IndexPtr> FindIndex(const fs::path& dir, const IndexOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const DatasetListing listing, ListDataset(dir));
  Status status = OkStatus();
  IndexPtr first;
  for (const fs::path& place : PlacesOfIndex(dir, options)) {
    Result<IndexPtr> index = DatasetIndex::Open(place);
    if (index.ok()) {
      // If the folder can no longer be written, it may have an outdated index while the cache has
      // the new one.
      if (CompareWithListing(**index, listing).stale.empty()) return index;
      if (first == nullptr) first = *index;
    } else if (status.ok() || status.code() == StatusCode::kNotFound) {
      status = index.status();
    }
  }
  if (first != nullptr) return first;
  if (status.code() != StatusCode::kNotFound) return status;
  return NotFound(fmt::format("dataset {} has no index; build it with `millrace index {}`",
                              dir.string(), dir.string()));
}

}  // namespace millrace
