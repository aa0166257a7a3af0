#include "server/kinds/coq/index/index_assembler.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "common/system/mutex.h"
#include "common/system/parallel.h"
#include "server/files/file_identity.h"
#include "server/kinds/coq/index/blob_placer.h"
#include "server/kinds/coq/index/index_format.h"
#include "server/kinds/coq/index/index_freshness.h"
#include "server/kinds/coq/index/index_writer.h"
#include "server/kinds/coq/index/left_out.h"

namespace millrace {
namespace {

void MergeBounds(const IndexBounds& of_file, IndexBounds& all) {
  const auto raise = [](std::uint64_t& a, std::uint64_t b) { a = std::max(a, b); };
  raise(all.max_file_nodes, of_file.max_file_nodes);
  raise(all.max_context, of_file.max_context);
  raise(all.max_arguments, of_file.max_arguments);
  raise(all.max_step, of_file.max_step);
  raise(all.max_cluster, of_file.max_cluster);
  raise(all.max_text_bytes, of_file.max_text_bytes);
}

Slice ToSlice(std::uint64_t first, std::uint64_t count) {
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count)};
}

class Assembler {
 public:
  Assembler(const ScannedDataset& dataset, const BlobReader& blob_of, const BuildOptions& options,
            const std::function<void()>& sample, unsigned threads)
      : dataset_(dataset),
        blob_of_(blob_of),
        options_(options),
        sample_(sample),
        threads_(threads) {}

  Status Run(const std::filesystem::path& index, IndexReport& report) {
    MILLRACE_RETURN_IF_ERROR(CountAll());
    NumberTactics();
    MILLRACE_ASSIGN_OR_RETURN(IndexWriter writer, IndexWriter::Create(index, Counts()));
    MILLRACE_RETURN_IF_ERROR(WriteBlobs(writer));
    IndexIdentity identity{
        .dataset_digest = {}, .host_id = HostId(), .nodes = nodes_, .edges = edges_};
    MILLRACE_RETURN_IF_ERROR(WriteFiles(writer, identity.dataset_digest));
    MILLRACE_RETURN_IF_ERROR(WriteStrings(writer));
    MILLRACE_RETURN_IF_ERROR(WriteLeftOut(writer));
    MILLRACE_ASSIGN_OR_RETURN(report.index_bytes, writer.Finish(identity));
    report.files = order().size();
    report.nodes = nodes_;
    report.edges = edges_;
    report.definitions = all_.definitions;
    report.proof_states = all_.outcomes;
    report.clusters = all_.clusters;
    report.tactics = tactics_.size();
    if (options_.before_publish) MILLRACE_RETURN_IF_ERROR(options_.before_publish());
    MILLRACE_RETURN_IF_ERROR(CheckStop(options_));
    return writer.Publish();
  }

 private:
  const std::vector<std::uint32_t>& order() const { return dataset_.order; }
  const FileSummary& FileAt(std::size_t id) const { return dataset_.summaries[order()[id]]; }
  const std::string& NameAt(std::size_t id) const { return dataset_.names[order()[id]]; }

  // Finds the number of each file's first record of every kind, and the totals. The index numbers
  // records with 32 bits. The number kNoRef stands for no record, so a dataset with too many is
  // refused.
  Status CountAll() {
    file_ids_.assign(dataset_.names.size(), kNoRef);
    first_.resize(order().size());
    for (std::size_t id = 0; id < order().size(); ++id) {
      const FileSummary& file = FileAt(id);
      file_ids_[order()[id]] = static_cast<std::uint32_t>(id);
      first_[id] = all_;
      all_ += file.counts;
      nodes_ += file.node_count;
      edges_ += file.edge_count;
      dependency_count_ += file.dependencies.size();
      file_name_bytes_ += NameAt(id).size();
    }
    for (const std::uint64_t count : {all_.definitions + all_.steps + order().size(), all_.outcomes,
                                      all_.required_files, dependency_count_}) {
      if (count >= kNoRef) {
        return ResourceExhausted(fmt::format(
            "the dataset has {} of some record, an index holds at most {}", count, kNoRef - 1));
      }
    }
    return OkStatus();
  }

  // Tactics with an outcome come first. Within both groups, tactics are numbered in the order in
  // which they are met.
  void NumberTactics() {
    const auto number = [&](const FileTactic& tactic) {
      const auto next = static_cast<std::uint32_t>(tactics_.size());
      if (!tactic_numbers_.try_emplace(tactic.ident, next).second) return;
      tactics_.push_back(tactic);
      tactic_text_bytes_ += tactic.base_text.size();
    };
    for (std::size_t id = 0; id < order().size(); ++id) {
      for (const std::uint32_t t : FileAt(id).tactics_with_outcomes) number(FileAt(id).tactics[t]);
    }
    for (std::size_t id = 0; id < order().size(); ++id) {
      for (const FileTactic& tactic : FileAt(id).tactics) number(tactic);
    }
  }

  SectionCounts Counts() const {
    SectionCounts counts{};
    CountOf(counts, IndexSection::kFiles) = order().size();
    CountOf(counts, IndexSection::kHostFiles) = order().size();
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
    CountOf(counts, IndexSection::kStringOffsets) = FirstName() + all_.definitions + 1;
    CountOf(counts, IndexSection::kStringBytes) = FirstNameByte() + all_.name_bytes;
    CountOf(counts, IndexSection::kDefinitionsByNode) = all_.definitions;
    CountOf(counts, IndexSection::kBounds) = 1;
    CountOf(counts, IndexSection::kLeftOut) = dataset_.left_out.size();
    for (const LeftOutFile& file : dataset_.left_out) {
      CountOf(counts, IndexSection::kLeftOutBytes) += file.name.size() + file.reason.size();
    }
    return counts;
  }

  // The strings are, in this order: names of files, texts of tactics, names of definitions.
  std::uint64_t FirstName() const { return order().size() + tactics_.size(); }
  std::uint64_t FirstNameByte() const { return file_name_bytes_ + tactic_text_bytes_; }

  Status WriteBlobs(IndexWriter& writer) {
    Mutex mutex;
    Status failure;
    ParallelFor(threads_, order().size(), [&](std::size_t id) {
      {
        MutexLock lock(mutex);
        if (!failure.ok()) return;
      }
      Status status = CheckStop(options_);
      if (status.ok()) status = WriteBlob(id, writer);
      if (status.ok()) return;
      MutexLock lock(mutex);
      failure = std::move(status);
    });
    return failure;
  }

  Status WriteBlob(std::size_t id, IndexWriter& writer) const {
    const FileSummary& file = FileAt(id);
    MILLRACE_ASSIGN_OR_RETURN(FileBlob blob, blob_of_(order()[id]));
    std::vector<std::uint32_t> dependencies;
    for (const std::uint32_t place : file.dependencies) dependencies.push_back(file_ids_[place]);
    std::vector<std::uint32_t> tactics;
    for (const FileTactic& tactic : file.tactics) {
      tactics.push_back(tactic_numbers_.find(tactic.ident)->second);
    }
    const BlobPlace place{.file = static_cast<std::uint32_t>(id),
                          .first = first_[id],
                          .first_name = FirstName(),
                          .first_name_byte = FirstNameByte() + first_[id].name_bytes,
                          .dependencies = dependencies,
                          .tactics = tactics};
    sample_();
    return PlaceBlob(place, blob, writer);
  }

  Status WriteFiles(IndexWriter& writer, Digest128& digest) const {
    std::vector<FileRecord> files;
    std::vector<HostFileRecord> host_files;
    std::vector<std::uint32_t> dependencies;
    IndexBounds bounds{};
    DatasetDigest dataset_digest;
    std::uint64_t node_base = 0;
    for (std::size_t id = 0; id < order().size(); ++id) {
      const FileSummary& file = FileAt(id);
      const BlobCounts& first = first_[id];
      files.push_back({.size = file.identity.size,
                       .digest_high = file.digest.high,
                       .digest_low = file.digest.low,
                       .node_base = node_base,
                       .node_count = file.node_count,
                       .edge_count = file.edge_count,
                       .name = static_cast<std::uint32_t>(id),
                       .representative = kNoRef,
                       .dependencies = ToSlice(dependencies.size(), file.dependencies.size()),
                       .definitions = ToSlice(first.definitions, file.counts.definitions),
                       .spine = ToSlice(first.spine, file.counts.spine),
                       .clusters = ToSlice(first.clusters, file.counts.clusters)});
      if (file.representative != kNoRef) {
        files.back().representative =
            file.representative + static_cast<std::uint32_t>(first.definitions);
      }
      host_files.push_back(HostRecord(file.identity));
      for (const std::uint32_t place : file.dependencies) dependencies.push_back(file_ids_[place]);
      MergeBounds(file.bounds, bounds);
      dataset_digest.Add(NameAt(id), file.identity.size, file.digest);
      node_base += file.node_count;
    }
    digest = dataset_digest.Finish();
    MILLRACE_RETURN_IF_ERROR(writer.Write<FileRecord>(IndexSection::kFiles, 0, files));
    MILLRACE_RETURN_IF_ERROR(writer.Write<HostFileRecord>(IndexSection::kHostFiles, 0, host_files));
    MILLRACE_RETURN_IF_ERROR(
        writer.Write<std::uint32_t>(IndexSection::kDependencyFiles, 0, dependencies));
    return writer.Write<IndexBounds>(IndexSection::kBounds, 0, std::span(&bounds, 1));
  }

  // The names of definitions were written with their files. Only the end of the last name is
  // missing.
  Status WriteStrings(IndexWriter& writer) const {
    std::vector<std::uint64_t> offsets;
    std::string bytes;
    std::vector<TacticRecord> tactics;
    for (std::size_t id = 0; id < order().size(); ++id) {
      offsets.push_back(bytes.size());
      bytes += NameAt(id);
    }
    for (const FileTactic& tactic : tactics_) {
      tactics.push_back({.ident = tactic.ident,
                         .base_text = static_cast<std::uint32_t>(offsets.size()),
                         .reserved = 0});
      offsets.push_back(bytes.size());
      bytes += tactic.base_text;
    }
    const std::uint64_t end = FirstNameByte() + all_.name_bytes;
    MILLRACE_RETURN_IF_ERROR(writer.Write<TacticRecord>(IndexSection::kTactics, 0, tactics));
    MILLRACE_RETURN_IF_ERROR(writer.Write<std::uint64_t>(IndexSection::kStringOffsets, 0, offsets));
    MILLRACE_RETURN_IF_ERROR(writer.Write<std::uint64_t>(
        IndexSection::kStringOffsets, FirstName() + all_.definitions, std::span(&end, 1)));
    return writer.Write<char>(IndexSection::kStringBytes, 0, bytes);
  }

  Status WriteLeftOut(IndexWriter& writer) const {
    std::vector<LeftOutRecord> records;
    std::string bytes;
    for (const LeftOutFile& file : dataset_.left_out) {
      records.push_back({.size = file.identity.size,
                         .host = HostRecord(file.identity),
                         .text = bytes.size(),
                         .name_bytes = static_cast<std::uint32_t>(file.name.size()),
                         .reason_bytes = static_cast<std::uint32_t>(file.reason.size()),
                         .why = static_cast<std::uint32_t>(file.why),
                         .reserved = 0});
      bytes += file.name + file.reason;
    }
    MILLRACE_RETURN_IF_ERROR(writer.Write<LeftOutRecord>(IndexSection::kLeftOut, 0, records));
    return writer.Write<char>(IndexSection::kLeftOutBytes, 0, bytes);
  }

  const ScannedDataset& dataset_;
  const BlobReader& blob_of_;
  const BuildOptions& options_;
  const std::function<void()>& sample_;
  const unsigned threads_;

  std::vector<std::uint32_t> file_ids_;  // one for each place
  std::vector<BlobCounts> first_;        // by FileId: records of all files before
  BlobCounts all_;
  std::uint64_t nodes_ = 0;
  std::uint64_t edges_ = 0;
  std::uint64_t dependency_count_ = 0;
  std::uint64_t file_name_bytes_ = 0;
  std::uint64_t tactic_text_bytes_ = 0;
  std::vector<FileTactic> tactics_;
  std::map<std::int64_t, std::uint32_t> tactic_numbers_;
};

}  // namespace

Status AssembleIndex(const ScannedDataset& dataset, const BlobReader& blob_of,
                     const std::filesystem::path& index, const BuildOptions& options,
                     const std::function<void()>& sample, IndexReport& report) {
  return Assembler(dataset, blob_of, options, sample, report.threads).Run(index, report);
}

}  // namespace millrace
