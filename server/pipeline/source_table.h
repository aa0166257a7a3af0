// Names of sources to what makes them. Tests add sources of their own.
//
// Immutable once made; thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "server/dataset/source.h"
#include "server/pipeline/graph/plan_draft.h"

namespace millrace {

class Dataset;

/// Makes a source for a plan. `dataset` is the one that the pipeline names.
using SourceFactory = std::function<Result<std::shared_ptr<const Source>>(
    std::shared_ptr<const Dataset> dataset, const PlanDraft& draft)>;

class SourceTable {
 public:
  /// Every source of the product.
  static const SourceTable& Default();

  /// This table with one more source.
  SourceTable With(std::string name, SourceFactory factory) const;

  /// The source that `draft.source` names. InvalidArgument for an unknown one, with the known ones;
  /// errors of the factory.
  Result<std::shared_ptr<const Source>> Make(std::shared_ptr<const Dataset> dataset,
                                             const PlanDraft& draft) const;

 private:
  std::map<std::string, SourceFactory, std::less<>> factories_;
};

}  // namespace millrace
