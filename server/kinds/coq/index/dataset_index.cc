#include "server/kinds/coq/index/dataset_index.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "server/files/mapped_file.h"
#include "server/kinds/coq/index/index_check.h"
#include "server/kinds/coq/index/index_format.h"

namespace millrace {
namespace {

// Largest size of an index for which opening compares every section with its checksum.
constexpr std::uint64_t kVerifyAtOpen = 8 << 20;

class MappedIndex final : public DatasetIndex {
 public:
  explicit MappedIndex(MappedFile file) : file_(std::move(file)) {}

  Status Load() {
    MILLRACE_RETURN_IF_ERROR(LoadHeader());
    MILLRACE_RETURN_IF_ERROR(LoadSections());
    if (file_.bytes().size() <= kVerifyAtOpen) MILLRACE_RETURN_IF_ERROR(Verify());
    return CheckFiles();
  }

  const MappedFile* file() const override { return &file_; }

  Status Verify() const override {
    const Status sections = VerifySections();
    // Checked first, because it explains any other error.
    MILLRACE_RETURN_IF_ERROR(file_.CheckIntact().WithContext("index " + file_.path().string()));
    return sections;
  }

 private:
  Status VerifySections() const {
    for (const SectionEntry& entry : table_) {
      const auto bytes = file_.bytes().subspan(entry.offset, entry.count * entry.entry_bytes);
      if (Xxh3_64(bytes) != entry.checksum) {
        return Damaged(entry.offset, fmt::format("section `{}` differs from its checksum",
                                                 IndexSectionName(entry.section)));
      }
    }
    return OkStatus();
  }

  Status Damaged(std::uint64_t offset, const std::string& what) const {
    return DataLoss(fmt::format("index {}: at byte {}: {}; build it again with `millrace index`",
                                file_.path().string(), offset, what));
  }

  Status LoadHeader() {
    const auto bytes = file_.bytes();
    if (bytes.size() < sizeof(IndexHeader)) {
      return Damaged(bytes.size(), "the file ends within its header");
    }
    IndexHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (std::memcmp(header.magic, kIndexMagic, sizeof(kIndexMagic)) != 0) {
      return Damaged(0, "this is no index of a dataset");
    }
    if (header.version != kIndexVersion) {
      return Damaged(8,
                     fmt::format("format version {}, expected {}", header.version, kIndexVersion));
    }
    if (header.file_bytes != bytes.size()) {
      return Damaged(
          16, fmt::format("the file has {} bytes, expected {}", bytes.size(), header.file_bytes));
    }
    const std::uint64_t table_bytes = std::uint64_t{header.section_count} * sizeof(SectionEntry);
    if (table_bytes > bytes.size() - sizeof(header)) {
      return Damaged(12, "the file ends within its section table");
    }
    table_.resize(header.section_count);
    if (table_bytes > 0) std::memcpy(table_.data(), bytes.data() + sizeof(header), table_bytes);
    if (HeaderChecksum(header, table_) != header.checksum) {
      return Damaged(24, "header or section table differ from their checksum");
    }
    digest_ = {header.dataset_digest_high, header.dataset_digest_low};
    host_id_ = {header.host_id_high, header.host_id_low};
    nodes_ = header.nodes;
    edges_ = header.edges;
    return OkStatus();
  }

  Status LoadSections() {
    for (const SectionEntry& entry : table_) {
      const std::uint64_t size = file_.bytes().size();
      if (entry.entry_bytes == 0 || entry.offset % kSectionAlignment != 0 || entry.offset > size ||
          entry.count > (size - entry.offset) / entry.entry_bytes) {
        return Damaged(sizeof(IndexHeader), fmt::format("section `{}` does not lie in the file",
                                                        IndexSectionName(entry.section)));
      }
    }
    std::span<const IndexBounds> bounds;
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kFiles, files_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kHostFiles, host_files_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kDefinitions, definitions_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kClusters, clusters_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kTactics, tactics_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kSteps, steps_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kOutcomes, outcomes_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kDependencyFiles, dependency_files_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kRequiredFiles, required_files_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kSpines, spines_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kClusterMembers, cluster_members_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kContextNodes, context_nodes_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kArguments, arguments_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kStringOffsets, string_offsets_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kStringBytes, string_bytes_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kDefinitionsByNode, definitions_by_node_));
    MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kBounds, bounds));
    // An older builder left nothing out and wrote no such section.
    if (Has(IndexSection::kLeftOut)) {
      MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kLeftOut, left_out_));
      MILLRACE_RETURN_IF_ERROR(Load(IndexSection::kLeftOutBytes, left_out_bytes_));
    }
    if (bounds.size() != 1) return Damaged(sizeof(IndexHeader), "expected one entry of `bounds`");
    bounds_ = bounds.data();
    return OkStatus();
  }

  bool Has(IndexSection section) const {
    return std::any_of(table_.begin(), table_.end(),
                       [&](const SectionEntry& e) { return e.section == section; });
  }

  template <class T>
  Status Load(IndexSection section, std::span<const T>& into) const {
    const auto entry = std::find_if(table_.begin(), table_.end(),
                                    [&](const SectionEntry& e) { return e.section == section; });
    if (entry == table_.end() || entry->entry_bytes != sizeof(T)) {
      return Damaged(sizeof(IndexHeader), fmt::format("no section `{}` with entries of {} bytes",
                                                      IndexSectionName(section), sizeof(T)));
    }
    into = {reinterpret_cast<const T*>(file_.bytes().data() + entry->offset),
            static_cast<std::size_t>(entry->count)};
    return OkStatus();
  }

  // All other records depend on these. They are few, so they are checked however large the index
  // is.
  Status CheckFiles() const {
    if (host_files_.size() != files_.size() || definitions_by_node_.size() != definitions_.size()) {
      return Damaged(sizeof(IndexHeader), "sections that belong together differ in length");
    }
    DatasetDigest digest;
    std::uint64_t node_base = 0;
    std::uint64_t spine_base = 0;
    for (std::uint32_t f = 0; f < files_.size(); ++f) {
      const FileRecord& file = files_[f];
      const auto dependencies = Sub(dependency_files_, file.dependencies);
      bool good = file.node_base == node_base && file.spine.first == spine_base &&
                  Holds(definitions_, file.definitions) && Holds(spines_, file.spine) &&
                  (file.spine.count == 0 || file.representative < definitions_.size()) &&
                  Holds(clusters_, file.clusters) && !dependencies.empty() &&
                  dependencies[0] == f && dependencies.size() == file.dependencies.count;
      for (const std::uint32_t d : dependencies) good = good && d < files_.size();
      if (!good) return Damaged(0, fmt::format("the record of file {} is wrong", f));
      node_base += file.node_count;
      spine_base += file.spine.count;
      digest.Add(string(file.name), file.size, {file.digest_high, file.digest_low});
    }
    if (node_base != nodes_ || digest.Finish() != digest_) {
      return Damaged(32, "the files' records do not give the dataset's digest or number of nodes");
    }
    return OkStatus();
  }

  template <class T>
  static bool Holds(std::span<const T> all, Slice slice) {
    return std::uint64_t{slice.first} + slice.count <= all.size();
  }

  MappedFile file_;
  std::vector<SectionEntry> table_;
};

}  // namespace

Result<std::shared_ptr<const DatasetIndex>> DatasetIndex::Open(const std::filesystem::path& file) {
  // Compiling a plan scans whole sections; building batches reads single records of them.
  Result<MappedFile> mapped = MappedFile::Open(file, AccessPattern::kMixed);
  if (!mapped.ok()) return mapped.status().WithContext("index " + file.string());
  auto index = std::make_shared<MappedIndex>(std::move(mapped).value());
  const Status loaded = index->Load();
  MILLRACE_RETURN_IF_ERROR(index->file()->CheckIntact().WithContext("index " + file.string()));
  MILLRACE_RETURN_IF_ERROR(loaded);
  return std::shared_ptr<const DatasetIndex>(std::move(index));
}

Status DatasetIndex::CheckRecords() const {
  MutexLock lock(mutex_);
  if (!records_) records_ = millrace::CheckRecords(*this);
  return *records_;
}

std::string_view DatasetIndex::string(std::uint32_t number) const {
  if (std::uint64_t{number} + 1 >= string_offsets_.size()) return {};
  const std::uint64_t begin = string_offsets_[number];
  const std::uint64_t end = string_offsets_[number + 1];
  if (begin > end || end > string_bytes_.size()) return {};
  return {string_bytes_.data() + begin, static_cast<std::size_t>(end - begin)};
}

const DefinitionTable& DatasetIndex::MakeTable() const {
  MutexLock lock(mutex_);
  if (made_ == nullptr) {
    made_ = std::make_unique<const DefinitionTable>(files_, definitions_);
    table_.store(made_.get(), std::memory_order_release);
  }
  return *made_;
}

}  // namespace millrace
