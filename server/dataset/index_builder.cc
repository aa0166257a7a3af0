#include "server/dataset/index_builder.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "common/base/mutex.h"
#include "server/dataset/blob_placer.h"
#include "server/dataset/blob_spool.h"
#include "server/dataset/file_scanner.h"
#include "server/dataset/index_format.h"
#include "server/dataset/index_writer.h"
#include "server/dataset/parallel.h"
#include "server/dataset/topological_order.h"

namespace millrace {
namespace {

// Memory of this process that is no mapped file; 0 where the system does not say.
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

void MergeBounds(const IndexBounds& of_file, IndexBounds& all) {
  const auto raise = [](std::uint64_t& a, std::uint64_t b) { a = std::max(a, b); };
  raise(all.max_file_nodes, of_file.max_file_nodes);
  raise(all.max_context, of_file.max_context);
  raise(all.max_arguments, of_file.max_arguments);
  raise(all.max_step, of_file.max_step);
  raise(all.max_cluster, of_file.max_cluster);
  raise(all.max_text_bytes, of_file.max_text_bytes);
}

class IndexBuilder {
 public:
  IndexBuilder(std::filesystem::path dir, std::filesystem::path index, const BuildOptions& options)
      : dir_(std::move(dir)), index_(std::move(index)), options_(options) {
    report_.threads =
        options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  }

  Result<IndexReport> Run(std::vector<BadFile>* bad) {
    const auto began = std::chrono::steady_clock::now();
    MILLRACE_ASSIGN_OR_RETURN(listing_, ListDataset(dir_));
    {
      MutexLock lock(mutex_);
      bad_ = listing_.bad;
    }
    MILLRACE_RETURN_IF_ERROR(ScanAll());
    CheckTargets();
    OrderAll();
    {
      MutexLock lock(mutex_);
      if (bad != nullptr) *bad = bad_;
      if (!bad_.empty()) return BadFilesStatus("dataset " + dir_.string(), bad_);
    }
    MILLRACE_RETURN_IF_ERROR(CountAll());
    NumberTactics();
    MILLRACE_RETURN_IF_ERROR(WriteAll());
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return report_;
  }

 private:
  std::uint32_t Count() const { return static_cast<std::uint32_t>(listing_.names.size()); }

  void AddBad(std::uint32_t place, std::string reason) {
    MutexLock lock(mutex_);
    bad_.push_back({listing_.names[place], std::move(reason)});
  }

  void Fail(Status status) {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
  }

  Status failure() {
    MutexLock lock(mutex_);
    return failure_;
  }

  // First pass: every file by itself, the largest first, so that no thread is left with it at the
  // end.
  Status ScanAll() {
    const auto folder = index_.parent_path();
    MILLRACE_ASSIGN_OR_RETURN(BlobSpool spool,
                              BlobSpool::Create(folder.empty() ? "." : folder));
    spool_ = std::make_unique<BlobSpool>(std::move(spool));
    NameTable names;
    for (std::uint32_t f = 0; f < Count(); ++f) names.emplace(listing_.names[f], f);
    // Files that are bad already are in the dataset all the same: those that depend on them are not
    // to blame.
    for (const BadFile& file : listing_.bad) names.emplace(file.name, Count());

    summaries_.resize(Count());
    blobs_.assign(Count(), kNoBlob);
    std::vector<std::uint32_t> by_size(Count());
    std::iota(by_size.begin(), by_size.end(), 0u);
    std::sort(by_size.begin(), by_size.end(), [&](std::uint32_t a, std::uint32_t b) {
      return listing_.identities[a].size > listing_.identities[b].size;
    });
    for (const FileIdentity& file : listing_.identities) report_.dataset_bytes += file.size;
    ProgressCount progress(options_.progress, report_.dataset_bytes);
    ParallelFor(report_.threads, by_size.size(), [&](std::size_t i) {
      if (!failure().ok()) return;
      ScanOne(by_size[i], names);
      progress.Add(listing_.identities[by_size[i]].size);
    });
    return failure();
  }

  void ScanOne(std::uint32_t place, const NameTable& names) {
    FileBlob blob;
    const Status status =
        ScanFile(dir_, listing_.names[place], place, names, summaries_[place], blob);
    if (status.code() == StatusCode::kResourceExhausted) {
      return Fail(status.WithContext(listing_.names[place]));
    }
    if (!status.ok()) return AddBad(place, status.message());
    SampleMemory();
    const Result<std::uint64_t> put = spool_->Put(blob);
    if (!put.ok()) return Fail(put.status());
    blobs_[place] = *put;
  }

  void SampleMemory() {
    const std::uint64_t bytes = OwnMemoryBytes();
    MutexLock lock(mutex_);
    peak_memory_ = std::max(peak_memory_, bytes);
  }

  bool IsGood(std::uint32_t place) const { return place < Count() && blobs_[place] != kNoBlob; }

  // References to nodes of other files, now that those files' sizes are known.
  void CheckTargets() {
    for (std::uint32_t f = 0; f < Count(); ++f) {
      if (!IsGood(f)) continue;
      const FileSummary& file = summaries_[f];
      for (std::size_t d = 1; d < file.dependencies.size(); ++d) {
        const std::uint32_t target = file.dependencies[d];
        if (!IsGood(target) || file.targets[d].needed_nodes <= summaries_[target].node_count) {
          continue;
        }
        AddBad(f, fmt::format("at byte {}: refers to node {} of {}, which has {}",
                              file.targets[d].offset, file.targets[d].needed_nodes - 1,
                              listing_.names[target], summaries_[target].node_count));
        break;
      }
    }
  }

  void OrderAll() {
    std::vector<OrderedFile> files(Count());
    for (std::uint32_t f = 0; f < Count(); ++f) {
      files[f] = {.size = summaries_[f].identity.size, .name = listing_.names[f]};
      if (IsGood(f)) files[f].dependencies = summaries_[f].dependencies;
    }
    TopologicalOrder order = OrderFiles(files);
    for (const std::uint32_t f : order.cyclic) {
      AddBad(f, fmt::format("is on a cycle of dependencies ({} file{} in all)",
                            order.cyclic.size(), order.cyclic.size() == 1 ? "" : "s"));
    }
    order_ = std::move(order.order);
  }

  // Where each file's records go. Numbers of records have 32 bits in the index, kNone left out.
  Status CountAll() {
    first_.resize(order_.size());
    for (std::size_t id = 0; id < order_.size(); ++id) {
      const FileSummary& file = summaries_[order_[id]];
      first_[id] = all_;
      all_ += file.counts;
      report_.nodes += file.node_count;
      report_.edges += file.edge_count;
      dependency_count_ += file.dependencies.size();
      file_name_bytes_ += listing_.names[order_[id]].size();
    }
    for (const std::uint64_t count : {all_.definitions + all_.clusters + order_.size(), all_.steps,
                                      all_.outcomes, all_.required_files, dependency_count_}) {
      if (count >= kNone) {
        return ResourceExhausted(
            fmt::format("dataset {} has {} of some record, an index holds at most {}",
                        dir_.string(), count, kNone - 1));
      }
    }
    report_.files = order_.size();
    report_.definitions = all_.definitions;
    report_.proof_states = all_.outcomes;
    report_.clusters = all_.clusters;
    return OkStatus();
  }

  void NumberTactics() {
    const auto number = [&](const FileTactic& tactic) {
      const auto [entry, is_new] =
          tactic_numbers_.try_emplace(tactic.ident, static_cast<std::uint32_t>(tactics_.size()));
      if (is_new) tactics_.push_back(tactic);
    };
    for (const std::uint32_t place : order_) {
      for (const std::uint32_t t : summaries_[place].tactics_with_outcomes) {
        number(summaries_[place].tactics[t]);
      }
    }
    for (const std::uint32_t place : order_) {
      for (const FileTactic& tactic : summaries_[place].tactics) number(tactic);
    }
    report_.tactics = tactics_.size();
  }

  // Second pass: records to their places.
  Status WriteAll() {
    const std::uint64_t strings = order_.size() + tactics_.size() + all_.definitions;
    for (const FileTactic& tactic : tactics_) tactic_text_bytes_ += tactic.base_text.size();
    SectionCounts counts{};
    CountOf(counts, IndexSection::kFiles) = order_.size();
    CountOf(counts, IndexSection::kHostFiles) = order_.size();
    CountOf(counts, IndexSection::kDefinitions) = all_.definitions;
    CountOf(counts, IndexSection::kClusters) = all_.clusters;
    CountOf(counts, IndexSection::kTactics) = tactics_.size();
    CountOf(counts, IndexSection::kSteps) = all_.steps;
    CountOf(counts, IndexSection::kOutcomes) = all_.outcomes;
    CountOf(counts, IndexSection::kDependencyFiles) = dependency_count_;
    CountOf(counts, IndexSection::kRequiredFiles) = all_.required_files;
    CountOf(counts, IndexSection::kSpines) = all_.spine;
    CountOf(counts, IndexSection::kClusterMembers) = all_.definitions;
    CountOf(counts, IndexSection::kContextNodes) = all_.context_nodes;
    CountOf(counts, IndexSection::kArguments) = all_.arguments;
    CountOf(counts, IndexSection::kStringOffsets) = strings + 1;
    CountOf(counts, IndexSection::kStringBytes) =
        file_name_bytes_ + tactic_text_bytes_ + all_.name_bytes;
    CountOf(counts, IndexSection::kDefinitionsByNode) = all_.definitions;
    CountOf(counts, IndexSection::kBounds) = 1;
    MILLRACE_ASSIGN_OR_RETURN(IndexWriter writer, IndexWriter::Create(index_, counts));

    file_ids_.assign(Count(), kNone);
    for (std::uint32_t id = 0; id < order_.size(); ++id) file_ids_[order_[id]] = id;
    ParallelFor(report_.threads, order_.size(), [&](std::size_t id) {
      if (!failure().ok()) return;
      const Status status = WriteOne(static_cast<std::uint32_t>(id), writer);
      if (!status.ok()) Fail(status);
    });
    MILLRACE_RETURN_IF_ERROR(failure());
    IndexIdentity identity{.dataset_digest = {}, .host_id = HostId(), .nodes = report_.nodes,
                           .edges = report_.edges};
    MILLRACE_RETURN_IF_ERROR(WriteFiles(writer, identity.dataset_digest));
    MILLRACE_RETURN_IF_ERROR(WriteStrings(writer));
    MILLRACE_ASSIGN_OR_RETURN(report_.index_bytes, writer.Finish(identity));
    {
      MutexLock lock(mutex_);
      report_.peak_memory_bytes = peak_memory_;
    }
    if (options_.before_publish) MILLRACE_RETURN_IF_ERROR(options_.before_publish());
    return writer.Publish();
  }

  Status WriteOne(std::uint32_t id, IndexWriter& writer) {
    const FileSummary& file = summaries_[order_[id]];
    MILLRACE_ASSIGN_OR_RETURN(FileBlob blob, spool_->Get(blobs_[order_[id]]));
    std::vector<std::uint32_t> dependencies;
    for (const std::uint32_t place : file.dependencies) dependencies.push_back(file_ids_[place]);
    std::vector<std::uint32_t> tactics;
    for (const FileTactic& tactic : file.tactics) {
      tactics.push_back(tactic_numbers_.find(tactic.ident)->second);
    }
    const BlobPlace place{
        .file = id,
        .first = first_[id],
        .first_name = order_.size() + tactics_.size(),
        .first_name_byte = file_name_bytes_ + tactic_text_bytes_ + first_[id].name_bytes,
        .dependencies = dependencies,
        .tactics = tactics};
    const Status status = PlaceBlob(place, blob, writer);
    SampleMemory();
    return status;
  }

  Status WriteFiles(IndexWriter& writer, Digest128& digest) {
    std::vector<FileRecord> files;
    std::vector<HostFileRecord> host_files;
    std::vector<std::uint32_t> dependencies;
    IndexBounds bounds{};
    DatasetDigest dataset_digest;
    std::uint64_t node_base = 0;
    for (std::uint32_t id = 0; id < order_.size(); ++id) {
      const FileSummary& file = summaries_[order_[id]];
      const auto slice = [](std::uint64_t first, std::uint64_t count) {
        return Slice{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count)};
      };
      files.push_back(
          {.size = file.identity.size,
           .digest_high = file.digest.high,
           .digest_low = file.digest.low,
           .node_base = node_base,
           .node_count = file.node_count,
           .edge_count = file.edge_count,
           .name = id,
           .representative =
               file.representative == kNone
                   ? kNone
                   : static_cast<std::uint32_t>(file.representative + first_[id].definitions),
           .dependencies = slice(dependencies.size(), file.dependencies.size()),
           .definitions = slice(first_[id].definitions, file.counts.definitions),
           .spine = slice(first_[id].spine, file.counts.spine),
           .clusters = slice(first_[id].clusters, file.counts.clusters)});
      host_files.push_back({.inode = file.identity.inode,
                            .modified_ns = file.identity.modified_ns,
                            .changed_ns = file.identity.changed_ns});
      for (const std::uint32_t place : file.dependencies) dependencies.push_back(file_ids_[place]);
      MergeBounds(file.bounds, bounds);
      dataset_digest.Add(listing_.names[order_[id]], file.identity.size, file.digest);
      node_base += file.node_count;
    }
    digest = dataset_digest.Finish();
    MILLRACE_RETURN_IF_ERROR(
        writer.Write<FileRecord>(IndexSection::kFiles, 0, files));
    MILLRACE_RETURN_IF_ERROR(
        writer.Write<HostFileRecord>(IndexSection::kHostFiles, 0, host_files));
    MILLRACE_RETURN_IF_ERROR(
        writer.Write<std::uint32_t>(IndexSection::kDependencyFiles, 0, dependencies));
    return writer.Write<IndexBounds>(IndexSection::kBounds, 0, std::span(&bounds, 1));
  }

  // Strings are the names of files, the texts of tactics, and the names of definitions, in order;
  // the last were written with the definitions, but for the end of the last one.
  Status WriteStrings(IndexWriter& writer) {
    std::vector<std::uint64_t> offsets;
    std::string bytes;
    std::vector<TacticRecord> tactics;
    for (const std::uint32_t place : order_) {
      offsets.push_back(bytes.size());
      bytes += listing_.names[place];
    }
    for (const FileTactic& tactic : tactics_) {
      tactics.push_back({.ident = tactic.ident,
                         .base_text = static_cast<std::uint32_t>(offsets.size()),
                         .reserved = 0});
      offsets.push_back(bytes.size());
      bytes += tactic.base_text;
    }
    const std::uint64_t end = bytes.size() + all_.name_bytes;
    MILLRACE_RETURN_IF_ERROR(writer.Write<TacticRecord>(IndexSection::kTactics, 0, tactics));
    MILLRACE_RETURN_IF_ERROR(
        writer.Write<std::uint64_t>(IndexSection::kStringOffsets, 0, offsets));
    MILLRACE_RETURN_IF_ERROR(writer.Write<std::uint64_t>(
        IndexSection::kStringOffsets, offsets.size() + all_.definitions, std::span(&end, 1)));
    return writer.Write<char>(IndexSection::kStringBytes, 0, bytes);
  }

  static constexpr std::uint64_t kNoBlob = ~std::uint64_t{0};

  const std::filesystem::path dir_;
  const std::filesystem::path index_;
  const BuildOptions& options_;
  IndexReport report_;
  DatasetListing listing_;
  std::unique_ptr<BlobSpool> spool_;

  // By place in the listing.
  std::vector<FileSummary> summaries_;
  std::vector<std::uint64_t> blobs_;
  std::vector<std::uint32_t> file_ids_;

  // By FileId.
  std::vector<std::uint32_t> order_;
  std::vector<BlobCounts> first_;

  BlobCounts all_;
  std::uint64_t dependency_count_ = 0;
  std::uint64_t file_name_bytes_ = 0;
  std::uint64_t tactic_text_bytes_ = 0;
  std::vector<FileTactic> tactics_;
  std::map<std::int64_t, std::uint32_t> tactic_numbers_;

  Mutex mutex_;
  std::vector<BadFile> bad_ MILLRACE_GUARDED_BY(mutex_);
  Status failure_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t peak_memory_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace

Result<IndexReport> BuildIndex(const std::filesystem::path& dir,
                               const std::filesystem::path& index, const BuildOptions& options,
                               std::vector<BadFile>* bad) {
  return IndexBuilder(dir, index, options).Run(bad);
}

}  // namespace millrace
