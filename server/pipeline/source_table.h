// Maps names of sources to the functions that make them. Tests add sources of their own.
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
  /// The table of all sources of the product.
  static const SourceTable& Default();

  /// Returns this table with one more source.
  SourceTable With(std::string name, SourceFactory factory) const;

  /// Makes the source that `draft.source` names. InvalidArgument, with the known names, if the name
  /// is unknown; errors of the factory.
  Result<std::shared_ptr<const Source>> Make(std::shared_ptr<const Dataset> dataset,
                                             const PlanDraft& draft) const;

 private:
  std::map<std::string, SourceFactory, std::less<>> factories_;
};

}  // namespace millrace
