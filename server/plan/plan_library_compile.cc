// How a PlanLibrary compiles pipelines: it opens their datasets, and has sources and plans made.
#include <algorithm>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/base/suggestion.h"
#include "server/files/cache_dir.h"
#include "server/files/damaged_files.h"
#include "server/files/index_place.h"
#include "server/plan/mix/mixed_source.h"
#include "server/plan/pipeline_parts.h"
#include "server/plan/plan_library.h"
#include "server/plan/plan_library_entry.h"
#include "server/plan/plan_source.h"
#include "server/plan/tensors/function_calls.h"
#include "server/plugin/plugin_config.h"
#include "server/source/mix_parts.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"

namespace millrace {
namespace {

/// The component of a path behind its last slash.
std::string_view LastComponent(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// InvalidArgument unless the dataset has the files that a pipeline excludes.
Status CheckExcludedFiles(const std::vector<std::string>& excluded, const Dataset& dataset) {
  if (excluded.empty()) return OkStatus();
  if (!dataset.can_exclude_files()) {
    return InvalidArgument(fmt::format(
        "exclude.files: a {} dataset has no files that could be left out", dataset.kind()));
  }
  std::vector<std::string> names;
  for (DatasetFile& file : dataset.Files()) names.push_back(std::move(file.name));
  std::sort(names.begin(), names.end());
  for (const std::string& name : excluded) {
    if (std::binary_search(names.begin(), names.end(), name)) continue;
    std::string meant = Suggestion(name, names);
    const auto same_end = std::find_if(names.begin(), names.end(), [&](const std::string& known) {
      return LastComponent(known) == LastComponent(name);
    });
    if (meant.empty() && same_end != names.end()) {
      meant = fmt::format(" (did you mean {}?)", *same_end);
    }
    return InvalidArgument(fmt::format(
        "exclude.files: the dataset has no file '{}'{}: names are those that `millrace inspect` "
        "prints, without patterns",
        Escaped(name), meant));
  }
  return OkStatus();
}

}  // namespace

Result<std::shared_ptr<const Plan>> PlanLibrary::Compile(const PipelineSource& source) {
  MILLRACE_ASSIGN_OR_RETURN(const Pipeline pipeline, Parse(source));
  return Compile(pipeline);
}

Result<std::shared_ptr<const Plan>> PlanLibrary::Compile(const Pipeline& pipeline) {
  MILLRACE_ASSIGN_OR_RETURN(const PlanParts parts, PartsOfPipeline(pipeline));
  return Compile(parts, pipeline.dataset(), pipeline.digest(), pipeline.order_digest());
}

Result<std::shared_ptr<const Plan>> PlanLibrary::Compile(const Pipeline& pipeline,
                                                         ColumnProvider& columns) {
  MILLRACE_ASSIGN_OR_RETURN(const PlanParts parts, PartsOfPipeline(pipeline));
  return CompileParts(parts, pipeline.dataset(), pipeline.digest(), pipeline.order_digest(),
                      &columns);
}

Result<std::shared_ptr<const Plan>> PlanLibrary::Compile(const PlanParts& parts,
                                                         const std::string& dataset_id,
                                                         Digest128 pipeline,
                                                         Digest128 order_pipeline) {
  return CompileParts(parts, dataset_id, pipeline, order_pipeline, nullptr);
}

std::vector<std::string> PlanLibrary::NamedPlugins(const Pipeline& pipeline) const {
  const Result<PlanParts> parts = PartsOfPipeline(pipeline);
  if (!parts.ok()) return {};
  std::set<std::string> named;
  const auto name_all = [&](const PlanParts& of) {
    const SourcePart& source = of.Get<SourcePart>();
    for (const auto& kind : options_.kinds.all()) {
      for (const SourceType& type : kind->sources().sources()) {
        if (type.name == source.name && type.own_dataset) {
          named.insert(type.own_dataset(source.argument));
        }
      }
    }
    for (const std::string& module : ModulesCalled(of.Get<TensorsPart>())) {
      named.insert(std::string(kPluginIdPrefix) + module);
    }
  };
  name_all(*parts);
  for (const BranchPart& branch : parts->Get<BranchesPart>().branches) name_all(branch.parts);
  return {named.begin(), named.end()};
}

std::vector<std::string> PlanLibrary::MissingPlugins(const Pipeline& pipeline) const {
  std::vector<std::string> missing = NamedPlugins(pipeline);
  const auto entries = Entries();
  std::erase_if(missing, [&](const std::string& id) { return entries.contains(id); });
  return missing;
}

std::vector<std::filesystem::path> PlanLibrary::ColumnFoldersOf(
    const std::string& dataset_id) const {
  const Result<std::shared_ptr<Entry>> entry = Find(dataset_id);
  if (entry.ok()) {
    const DatasetLocation& location = (*entry)->location;
    return ColumnFolders(location.dir, location.index_file, options_.cache_dir);
  }
  const std::filesystem::path cache =
      options_.cache_dir.empty() ? DefaultCacheDir() : options_.cache_dir;
  if (cache.empty()) return {};
  return {cache / Xxh3(dataset_id).ToHex() / "columns"};
}

Result<DrawnDataset> PlanLibrary::Draw(const std::string& dataset_id, const PlanParts& parts) {
  DrawnDataset drawn;
  drawn.id = dataset_id;
  drawn.parts = &parts;
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, Find(dataset_id));
  MILLRACE_RETURN_IF_ERROR(OpenEntry(*entry));
  {
    MutexLock lock(entry->mutex);
    drawn.dataset = entry->dataset;
    drawn.kind = entry->kind;
  }
  for (const DamagedFile& damage : drawn.dataset->Damages()) {
    if (damage.file == DamagedFile::kIndex) return DamagedIndexStatus(dataset_id, damage);
  }
  MILLRACE_ASSIGN_OR_RETURN(const DatasetStatus status, GetStatus(dataset_id));
  std::vector<std::string> needed;
  const std::vector<std::string>& excluded = parts.Get<ExcludePart>().files;
  const Status known = CheckExcludedFiles(excluded, *drawn.dataset);
  if (!known.ok()) return AtKey(parts, known);
  for (const std::string& file : status.damaged_files) {
    if (drawn.dataset->LeavesToSources(file)) continue;
    if (std::find(excluded.begin(), excluded.end(), file) == excluded.end()) needed.push_back(file);
  }
  if (!needed.empty() && !drawn.dataset->can_exclude_files()) {
    return DataLoss(
        fmt::format("dataset '{}': {}; put the file back and restart the workers that had it open",
                    dataset_id, status.error));
  }
  if (!needed.empty()) {
    return DamagedFilesStatus(dataset_id, status.error, excluded, needed);
  }
  return drawn;
}

Result<std::shared_ptr<const Plan>> PlanLibrary::CompileParts(const PlanParts& parts,
                                                              const std::string& dataset_id,
                                                              Digest128 pipeline,
                                                              Digest128 order_pipeline,
                                                              ColumnProvider* columns) {
  const std::vector<BranchPart>& branches = parts.Get<BranchesPart>().branches;
  std::vector<DrawnDataset> drawn;
  std::vector<Digest128> digests;
  std::string key = dataset_id;
  if (branches.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(drawn.emplace_back(), Draw(dataset_id, parts));
  }
  for (const BranchPart& branch : branches) {
    MILLRACE_ASSIGN_OR_RETURN(drawn.emplace_back(), Draw(branch.dataset, branch.parts));
    drawn.back().branch = branch.name;
    key += branch.dataset + ' ';
  }
  for (const DrawnDataset& one : drawn) digests.push_back(one.dataset->digest());
  const Digest128 digest = branches.empty() ? digests.front() : JoinDigests(digests);
  key += ' ' + Fingerprint{digest, pipeline}.ToString();
  // A cache changes no fingerprint, but whoever asks for one gets it.
  for (const DrawnDataset& one : drawn) {
    key += fmt::format(" {}", static_cast<int>(one.parts->Get<CachePart>().examples));
  }
  if (columns == nullptr) {
    MutexLock lock(mutex_);
    if (std::shared_ptr<const Plan> plan = plans_[key].lock()) {
      // The plan may be in use while its files become damaged.
      if (plan->source() != nullptr) MILLRACE_RETURN_IF_ERROR(plan->source()->CheckIntact());
      return plan;
    }
  }
  for (DrawnDataset& one : drawn) one.column_folders = ColumnFoldersOf(one.id);
  const SourceServices services = {options_.plugins, options_.examples,
                                   columns != nullptr ? *columns : *columns_, *logger_,
                                   options_.index_threads, stop_.get_token()};
  MILLRACE_ASSIGN_OR_RETURN(PlanSource made, MakePlanSource(drawn, parts, services));
  const std::string& code = made.source->facts().code;
  if (!code.empty()) pipeline = Xxh3(fmt::format("{}\n{}", pipeline.ToHex(), code));
  PlanParts left = parts;
  left.Edit<TensorsPart>() = std::move(made.tensors);
  MILLRACE_ASSIGN_OR_RETURN(
      std::shared_ptr<const Plan> plan,
      Plan::Compile(left, pipeline, order_pipeline, std::move(made.source), options_.batch_memory));
  if (columns != nullptr) return plan;
  MutexLock lock(mutex_);
  std::erase_if(plans_, [](const auto& known) { return known.second.expired(); });
  plans_[key] = plan;
  return plan;
}

}  // namespace millrace
