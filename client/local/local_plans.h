// A pipeline and the datasets that it needs, ready to compile in this process.
//
// Not thread-safe, except for Stop.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "server/plan/plan_library.h"
#include "server/plan/text/pipeline.h"
#include "server/plugin/plugin_registry.h"
#include "server/source/plan_parts.h"

namespace millrace {

/// Where datasets are, and how they are indexed.
struct LocalDatasets {
  DatasetKinds kinds;  // of datasets that can be opened
  /// Folders by dataset id, as DIR or KIND:DIR; "" is the dataset that the pipeline draws from, if
  /// there is only one.
  std::map<std::string, std::filesystem::path> folders;
  /// Runs the plugins that pipelines name; null: no plugins. `kinds` were made with the same.
  std::shared_ptr<PluginRegistry> plugins = nullptr;
  std::filesystem::path index_file;  // of the pipeline's dataset; empty: found by itself
  bool skip_bad = false;             // whether indexes leave out bad files
  std::string advice;                // says how to give a folder; ends the error for a missing one
  /// Called from several threads while an index is built; may be empty.
  std::function<void(const std::string& dataset_id, const IndexProgress&)> progress;
  /// Called from several threads, but by only one at a time, while columns are measured; may be
  /// empty.
  std::function<void(const std::string& dataset_id, std::uint64_t done, std::uint64_t all)>
      measuring;
};

class LocalPlans {
 public:
  /// InvalidArgument if the pipeline has an error, if a dataset's folder is given twice, if the
  /// folder of a dataset of the pipeline is missing, or if a kind is unknown.
  static Result<LocalPlans> Open(const PipelineSource& source, LocalDatasets datasets);

  const Pipeline& pipeline() const { return pipeline_; }
  PlanLibrary& library() { return *library_; }
  /// Runs the pipeline's plugins; null if no plugins are listed.
  const std::shared_ptr<PluginRegistry>& plugins() const { return plugins_; }
  /// The pipeline's dataset; the first one, if branches name several. If it has to be indexed
  /// first, this may take long.
  Result<std::shared_ptr<const Dataset>> OpenDataset();
  /// The pipeline's plan.
  Result<std::shared_ptr<const Plan>> Compile() { return library_->Compile(pipeline_); }
  /// The plan of changed parts. Its fingerprints have only the dataset's half in common with those
  /// of the pipeline's plan.
  Result<std::shared_ptr<const Plan>> Compile(const PlanParts& parts);
  /// Stops any indexing that is under way. Thread-safe.
  void Stop() { library_->Stop(); }

 private:
  LocalPlans(std::shared_ptr<const StageTable> stages, Pipeline pipeline,
             std::shared_ptr<PluginRegistry> plugins, std::unique_ptr<PlanLibrary> library)
      : stages_(std::move(stages)),
        pipeline_(std::move(pipeline)),
        plugins_(std::move(plugins)),
        library_(std::move(library)) {}

  std::shared_ptr<const StageTable> stages_;
  Pipeline pipeline_;  // refers to the stages
  std::shared_ptr<PluginRegistry> plugins_;
  std::unique_ptr<PlanLibrary> library_;
};

}  // namespace millrace
