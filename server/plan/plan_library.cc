#include "server/plan/plan_library.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "common/base/plugin_id.h"
#include "server/plan/plan_library_entry.h"
#include "server/plan/stage_table.h"

namespace millrace {

namespace {

/// Formats names as "a, b and 3 more".
std::string Join(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

}  // namespace

PlanLibrary::PlanLibrary(PlanLibraryOptions options, std::shared_ptr<Logger> logger)
    : options_(std::move(options)),
      stages_(options_.stages != nullptr
                  ? options_.stages
                  : std::make_shared<const StageTable>(MakeStageTable(options_.kinds))),
      logger_(std::move(logger)),
      columns_(options_.columns != nullptr
                   ? options_.columns
                   : std::make_shared<LocalColumns>(
                         LocalColumnsOptions{.threads = options_.index_threads,
                                             .stop = stop_.get_token(),
                                             .progress = options_.measuring},
                         logger_)) {
  SetDatasets(options_.datasets);
}

PlanLibrary::~PlanLibrary() {
  // What was built since the last look can be kept too.
  if (options_.examples != nullptr && options_.examples->has_disk()) CheckFiles();
}

std::shared_ptr<PlanLibrary::Entry> PlanLibrary::MakeEntry(const std::string& id,
                                                           const DatasetLocation& location) const {
  auto entry = std::make_shared<Entry>();
  entry->id = id;
  entry->location = location;
  MutexLock lock(entry->mutex);
  entry->in_progress = options_.open_ahead;
  return entry;
}

void PlanLibrary::SetDatasets(const std::map<std::string, DatasetLocation>& datasets) {
  MutexLock lock(mutex_);
  std::map<std::string, std::shared_ptr<Entry>> entries;
  for (const auto& [id, location] : datasets) {
    const auto known = entries_.find(id);
    const bool same = known != entries_.end() && known->second->location == location;
    entries[id] = same ? known->second : MakeEntry(id, location);
  }
  for (const auto& [id, entry] : entries_) {
    const auto kept = entries.find(id);
    if (kept == entries.end() || kept->second != entry) retired_.push_back(entry);
  }
  entries_ = std::move(entries);
}

std::map<std::string, std::shared_ptr<PlanLibrary::Entry>> PlanLibrary::Entries() const {
  MutexLock lock(mutex_);
  return entries_;
}

Result<std::shared_ptr<PlanLibrary::Entry>> PlanLibrary::Find(const std::string& dataset_id) const {
  const auto entries = Entries();
  const auto found = entries.find(dataset_id);
  if (found != entries.end()) return found->second;
  if (dataset_id.starts_with(kPluginIdPrefix)) {
    const std::string plugin = dataset_id.substr(kPluginIdPrefix.size());
    return NotFound(fmt::format(
        "plugin '{0}' is not listed here: expected `--plugin {0}=FOLDER`, or {0} below `plugins:` "
        "of the configuration",
        plugin));
  }
  if (entries.empty()) {
    return NotFound(fmt::format("dataset '{}' is not known here, nor is any other: name its folder",
                                dataset_id));
  }
  return NotFound(fmt::format("dataset '{}' is not known here: expected one of {}", dataset_id,
                              Join(dataset_ids())));
}

Status PlanLibrary::OpenEntry(Entry& entry) {
  MutexLock one_opens(entry.opening);
  {
    MutexLock lock(entry.mutex);
    if (entry.dataset) return OkStatus();
    entry.in_progress = true;
  }
  const Status stops = Unavailable(
      fmt::format("dataset '{}' is not opened any more: this process is stopping", entry.id));
  // The entry stays marked as being opened, so that those who wait for it do not see a failure.
  if (stop_.stop_requested()) return stops;
  OpenedDataset opened = OpenFolder(entry);
  CountFailures("open", opened.bad_files);
  if (!opened.status.ok() && opened.dataset) {
    logger_->Warning("dataset has damaged files; only plans that go on without them are served",
                     {{"dataset", entry.id}, {"files", Join(opened.damaged)}});
  }
  MutexLock lock(entry.mutex);
  entry.indexing = 0;
  if (!opened.status.ok() && stop_.stop_requested()) return stops;
  entry.in_progress = false;
  entry.error = opened.status.message();
  if (!opened.dataset) return opened.status.WithContext(fmt::format("dataset '{}'", entry.id));
  entry.damaged = std::move(opened.damaged);
  entry.dataset = std::move(opened.dataset);
  return OkStatus();
}

OpenedDataset PlanLibrary::OpenFolder(Entry& entry) {
  const auto kind = options_.kinds.Find(entry.location.dir, entry.location.kind);
  if (!kind.ok()) return {.status = kind.status()};
  {
    MutexLock lock(entry.mutex);
    entry.kind = *kind;
  }
  DatasetOpenOptions options;
  options.id = entry.id;
  options.index_file = entry.location.index_file;
  options.cache_dir = options_.cache_dir;
  options.skip_bad = options_.skip_bad;
  options.in_memory = entry.location.in_memory && (*kind)->can_be_in_memory();
  options.threads = options_.index_threads;
  options.stop = stop_.get_token();
  options.one_build = &one_build_;
  options.logger = logger_;
  options.progress = [this, &entry](const IndexProgress& progress) {
    if (options_.progress) options_.progress(entry.id, progress);
    MutexLock lock(entry.mutex);
    entry.indexing = progress.bytes_total == 0 ? 0
                                               : static_cast<double>(progress.bytes_done) /
                                                     static_cast<double>(progress.bytes_total);
  };
  return (*kind)->Open(entry.location.dir, options);
}

Result<std::shared_ptr<const Dataset>> PlanLibrary::Open(const std::string& dataset_id) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(dataset_id));
  MILLRACE_RETURN_IF_ERROR(OpenEntry(*entry));
  MutexLock lock(entry->mutex);
  return entry->dataset;
}

void PlanLibrary::OpenAll(
    const std::function<void(const std::string& dataset_id, const Status&)>& opened) {
  const auto entries = Entries();
  std::vector<std::jthread> threads;
  for (const auto& [id, entry] : entries) {
    threads.emplace_back([this, &opened, &id = id] { opened(id, Open(id).status()); });
  }
}

Result<Pipeline> PlanLibrary::Parse(const PipelineSource& source) const {
  return Pipeline::Parse(
      source, *stages_,
      options_.operations != nullptr ? *options_.operations : OperationTable::Default());
}

bool PlanLibrary::CheckFiles(const std::stop_token& stop) {
  BuiltExamples* const examples = options_.examples.get();
  UncheckedExamples unchecked;
  if (examples != nullptr) unchecked = examples->TakeUnchecked();
  const bool worse = SnapshotFiles(stop);
  if (examples != nullptr) {
    examples->Reconcile(std::move(unchecked), worse                   ? FilesFound::kDamaged
                                              : stop.stop_requested() ? FilesFound::kUnknown
                                                                      : FilesFound::kIntact);
  }
  return worse;
}

bool PlanLibrary::SnapshotFiles(const std::stop_token& stop) {
  bool worse = false;
  std::vector<std::shared_ptr<Entry>> looked_at;
  {
    MutexLock lock(mutex_);
    // If only its entry holds a dataset, no plan needs it.
    std::erase_if(retired_, [](const std::shared_ptr<Entry>& entry) {
      MutexLock own(entry->mutex);
      return !entry->in_progress && entry->dataset.use_count() <= 1;
    });
    looked_at = retired_;
    for (const auto& [id, entry] : entries_) looked_at.push_back(entry);
  }
  for (const std::shared_ptr<Entry>& entry : looked_at) {
    const std::string& id = entry->id;
    std::shared_ptr<const Dataset> dataset;
    {
      MutexLock lock(entry->mutex);
      dataset = entry->dataset;
    }
    if (!dataset) continue;
    const FileNews news = dataset->CheckFiles(stop);
    CountFailures("served", news.damaged.size());
    if (!news.touched.empty()) {
      logger_->Info("files were touched; they hold the same bytes and go on being used",
                    {{"dataset", id}, {"files", Join(news.touched)}});
    }
    if (news.verified) {
      logger_->Info("all files were compared with their digests", {{"dataset", id}});
    }
    for (const DamagedFile& file : news.replaced) {
      logger_->Warning("file was replaced; the one that was opened goes on being used",
                       {{"dataset", id}, {"file", file.name}, {"now", file.what}});
    }
    for (const DamagedFile& file : news.damaged) {
      worse = true;
      logger_->Error(dataset->can_exclude_files()
                         ? "file is damaged; only plans that exclude it are served"
                         : "file is damaged; no plan over its dataset is served any more",
                     {{"dataset", id}, {"file", file.name}, {"why", file.what}});
      const std::string text = file.name + ": " + file.what;
      MutexLock lock(entry->mutex);
      entry->error += (entry->error.empty() ? "" : "; ") + text;
      auto& damaged = entry->damaged;
      // A damaged index is not a file that a pipeline could exclude. Its plans refuse by
      // themselves.
      if (file.file == DamagedFile::kIndex) continue;
      if (std::find(damaged.begin(), damaged.end(), file.name) == damaged.end()) {
        damaged.push_back(file.name);
      }
    }
  }
  return worse;
}

void PlanLibrary::CountFailures(const std::string& kind, std::uint64_t files) {
  MutexLock lock(mutex_);
  file_failures_[kind] += files;
}

std::map<std::string, std::uint64_t> PlanLibrary::file_failures() const {
  MutexLock lock(mutex_);
  return file_failures_;
}

std::vector<std::string> PlanLibrary::dataset_ids() const {
  std::vector<std::string> ids;
  for (const auto& [id, entry] : Entries()) ids.push_back(id);
  return ids;
}

Result<DatasetStatus> PlanLibrary::GetStatus(const std::string& dataset_id) const {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(dataset_id));
  DatasetStatus status;
  status.id = entry->id;
  status.dir = entry->location.dir;
  MutexLock lock(entry->mutex);
  status.opening = entry->in_progress;
  status.indexing = entry->indexing;
  status.error = entry->error;
  status.damaged_files = entry->damaged;
  status.kind = entry->kind ? entry->kind->name() : std::string_view(entry->location.kind);
  if (entry->dataset) {
    const Dataset& dataset = *entry->dataset;
    status.open = true;
    status.digest = dataset.digest();
    status.files = dataset.file_count();
    status.examples = dataset.examples();
    status.left_out_files = dataset.left_out_count();
    status.in_memory_bytes = dataset.in_memory_bytes();
    status.unverified = dataset.unverified();
    status.left_out = dataset.LeftOut(DatasetStatus::kShownLeftOut);
  }
  return status;
}

}  // namespace millrace
