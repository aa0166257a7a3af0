#include "server/kinds/coq/coq_dataset.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "server/kinds/coq/scan/graph_file.h"

namespace millrace {

struct CoqDataset::OpenFile {
  MappedFile file;
  FileView view;
  std::uint32_t number;
};

CoqDataset::CoqDataset(std::filesystem::path dir, std::shared_ptr<const DatasetIndex> index)
    : dir_(std::move(dir)),
      index_(std::move(index)),
      same_host_(index_->host_id() == HostId()),
      slot_count_(static_cast<std::uint32_t>(index_->files().size())),
      slots_(std::make_unique<std::atomic<const FileView*>[]>(slot_count_)) {}

CoqDataset::~CoqDataset() = default;

std::vector<DatasetFile> CoqDataset::Files() const {
  std::vector<DatasetFile> files;
  for (const FileRecord& file : index_->files()) {
    files.push_back({std::string(index_->string(file.name)), file.size,
                     Digest128{file.digest_high, file.digest_low}});
  }
  return files;
}

std::vector<BadFile> CoqDataset::LeftOut(std::size_t most) const {
  std::vector<BadFile> files;
  const auto left_out = index_->left_out();
  for (const LeftOutRecord& file : left_out.first(std::min(left_out.size(), most))) {
    files.push_back(
        {std::string(index_->left_out_name(file)), std::string(index_->left_out_reason(file))});
  }
  return files;
}

Result<const FileView*> CoqDataset::View(FileId file) const {
  if (const FileView* view = TryView(file)) return view;
  if (file.value() >= slot_count_) {
    return OutOfRange(fmt::format("file {} of a dataset of {}", file.value(), slot_count_));
  }
  Result<const FileView*> view = OpenNow(file.value());
  if (view.ok()) return view;
  // If a file of the index cannot be opened, for whatever reason, it is not the file that was
  // indexed.
  const Status& why = view.status();
  const StatusCode code =
      why.code() == StatusCode::kResourceExhausted ? why.code() : StatusCode::kDataLoss;
  const std::string name(index_->file_name(file.value()));
  if (code == StatusCode::kDataLoss) NoteDamage(file.value(), why.message());
  return Status(code, fmt::format("file {} of dataset {}: {}", name, dir_.string(), why.message()));
}

Result<const FileView*> CoqDataset::OpenNow(std::uint32_t file) const {
  const FileRecord& record = index_->files()[file];
  MILLRACE_ASSIGN_OR_RETURN(
      MappedFile mapped, MappedFile::Open(dir_ / index_->file_name(file), AccessPattern::kRandom));
  if (mapped.identity().size != record.size) {
    return DataLoss(fmt::format("has {} bytes, expected {}; index the dataset again",
                                mapped.identity().size, record.size));
  }
  const HostFileRecord& host = index_->host_files()[file];
  const bool as_indexed = same_host_ && mapped.identity().inode == host.inode &&
                          mapped.identity().modified_ns == host.modified_ns &&
                          mapped.identity().changed_ns == host.changed_ns;
  if (!as_indexed) {
    const Digest128 expected{record.digest_high, record.digest_low};
    const Digest128 digest = Xxh3(mapped.bytes());
    if (digest != expected) {
      return DataLoss(fmt::format("has digest {}, expected {}; index the dataset again",
                                  digest.ToHex(), expected.ToHex()));
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(GraphFile graph, GraphFile::Open(std::move(mapped)));
  if (graph.node_count() != record.node_count || graph.edge_count() != record.edge_count) {
    return DataLoss(fmt::format("has {} nodes and {} edges, expected {} and {}", graph.node_count(),
                                graph.edge_count(), record.node_count, record.edge_count));
  }
  const auto dependencies = Sub(index_->dependency_files(), record.dependencies);
  const auto bytes = graph.file().bytes();
  const FileView view{.nodes = graph.nodes(),
                      .edges = graph.edges(),
                      .node_count = graph.node_count(),
                      .edge_count = graph.edge_count(),
                      .dependency_files = dependencies.data(),
                      .dependency_count = static_cast<std::uint32_t>(dependencies.size()),
                      .node_base = record.node_base,
                      .bytes = bytes.data(),
                      .size = bytes.size()};
  auto open = std::make_unique<OpenFile>(OpenFile{std::move(graph).TakeFile(), view, file});

  MutexLock lock(mutex_);
  // If two threads have opened the same file, the first one's view is kept.
  if (const FileView* first = slots_[file].load(std::memory_order_relaxed)) return first;
  const FileView* const published = &open->view;
  open_.push_back(std::move(open));
  slots_[file].store(published, std::memory_order_release);
  return published;
}

std::string CoqDataset::NameOf(std::uint32_t number) const {
  if (number == DamagedFile::kIndex) return index_->file() ? index_->file()->path().string() : "";
  return std::string(index_->file_name(number));
}

FileWatch::Files CoqDataset::MappedNow() const {
  FileWatch::Files files;
  if (const MappedFile* index = index_->file()) files.emplace(DamagedFile::kIndex, index);
  MutexLock lock(mutex_);
  for (const auto& open : open_) files.emplace(open->number, &open->file);
  return files;
}

Status CoqDataset::CompareBytes(std::uint32_t number, const MappedFile& file,
                                const std::stop_token& stop) const {
  if (number == DamagedFile::kIndex) return index_->Verify();
  const FileRecord& record = index_->files()[number];
  return HashesTo({record.digest_high, record.digest_low}, file, stop);
}

Result<std::string_view> CoqDataset::Text(FileId file, TextRef text) const {
  MILLRACE_ASSIGN_OR_RETURN(const FileView* const view, View(file));
  if (text.offset > view->size || text.bytes > view->size - text.offset) {
    return DataLoss(fmt::format("file {}: a text of {} bytes at byte {} does not lie in the file",
                                index_->file_name(file.value()), text.bytes, text.offset));
  }
  return std::string_view(reinterpret_cast<const char*>(view->bytes) + text.offset, text.bytes);
}

}  // namespace millrace
