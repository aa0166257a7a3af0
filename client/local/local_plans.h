// A pipeline and the datasets that it needs, ready to compile in this process.
//
// Not thread-safe, but for Stop.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "server/pipeline/graph/plan_draft.h"
#include "server/pipeline/plan_library.h"
#include "server/pipeline/text/pipeline.h"

namespace millrace {

/// Where datasets lie, and how they are indexed.
struct LocalDatasets {
  /// Folders by dataset id; "" stands for the one that the pipeline draws from.
  std::map<std::string, std::filesystem::path> folders;
  std::filesystem::path index_file;  // of the pipeline's dataset; empty: found by itself
  bool skip_bad = false;             // indexes leave out bad files
  std::string advice;                // how a folder is given: the end of a message without one
  /// Called from several threads while an index is built; may be empty.
  std::function<void(const std::string& dataset_id, const IndexProgress&)> progress;
};

class LocalPlans {
 public:
  /// InvalidArgument for what the pipeline says wrongly, for a dataset whose folder is given twice,
  /// and where that of the pipeline's own is not given.
  static Result<LocalPlans> Open(const PipelineSource& source, LocalDatasets datasets);

  const Pipeline& pipeline() const { return pipeline_; }
  PlanLibrary& library() { return *library_; }
  /// The pipeline's dataset. Indexing it may take long.
  Result<std::shared_ptr<const Dataset>> OpenDataset();
  /// The pipeline's plan.
  Result<std::shared_ptr<const Plan>> Compile() { return library_->Compile(pipeline_); }
  /// The plan of a changed draft: no part of any fingerprint but the dataset's is its own.
  Result<std::shared_ptr<const Plan>> Compile(const PlanDraft& draft);
  /// Ends what is being indexed. Thread-safe.
  void Stop() { library_->Stop(); }

 private:
  LocalPlans(Pipeline pipeline, std::unique_ptr<PlanLibrary> library)
      : pipeline_(std::move(pipeline)), library_(std::move(library)) {}

  Pipeline pipeline_;
  std::unique_ptr<PlanLibrary> library_;
};

}  // namespace millrace
