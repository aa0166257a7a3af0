// The source that a plan reads: that of a dataset, with all that the pipeline puts around it.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "server/plan/cache/built_examples.h"
#include "server/plan/columns/column_provider.h"
#include "server/plugin/plugin_registry.h"
#include "server/source/dataset.h"
#include "server/source/dataset_kind.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"
#include "server/source/tensors_part.h"

namespace millrace {

/// A dataset from which a plan draws, and for which branch.
struct DrawnDataset {
  std::string id;
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const DatasetKind> kind;
  /// Where its measured columns may be kept.
  std::vector<std::filesystem::path> column_folders;
  const PlanParts* parts = nullptr;  // of the branch, or of the whole pipeline
  std::string branch = {};           // its name, if a mix draws from several
};

/// Services of the process that sources are made with. All outlive the call.
struct SourceServices {
  std::shared_ptr<PluginRegistry> plugins;  // null: pipelines have no functions
  std::shared_ptr<BuiltExamples> examples;  // null: no cache
  ColumnProvider& columns;
  Logger& logger;
  unsigned threads = 0;       // that pack documents; 0: one for each CPU of the process
  std::stop_token stop = {};  // ends packing
};

/// A source, and the tensors that are left to compute from its tensors.
struct PlanSource {
  std::shared_ptr<const Source> source;
  TensorsPart tensors;
};

/// `parts`: of the whole pipeline. `drawn`: for each branch, or the only dataset if there are no
/// branches. InvalidArgument, beginning with the key, if parts and datasets do not fit together;
/// errors of columns, plugins and kinds.
Result<PlanSource> MakePlanSource(std::span<const DrawnDataset> drawn, const PlanParts& parts,
                                  const SourceServices& services);

}  // namespace millrace
