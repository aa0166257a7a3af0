// The source of the plan facts that a dispatcher needs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "millrace/v1/common.pb.h"
#include "server/dispatcher/machine/column_facts.h"
#include "server/dispatcher/service/column_keeper.h"
#include "server/plan/facts/plan_facts.h"

namespace millrace {

/// Compiles pipelines to plans. Thread-safe.
class PlanCompiler {
 public:
  virtual ~PlanCompiler() = default;
  /// Blocks for as long as compiling takes, so it is not called on the event loop. Unavailable or
  /// ResourceExhausted if it can be tried again later, for example because an index is being built.
  /// Any other error ends the sessions that ask for the plan.
  virtual Result<std::shared_ptr<const PlanFacts>> Compile(const v1::PipelineText& pipeline) = 0;
  /// The datasets and plugins (as datasets) that a pipeline names, without running its code; empty
  /// if it cannot be read.
  virtual std::vector<std::string> NamedBy(const v1::PipelineText& /*pipeline*/) { return {}; }
  /// The columns that have to be measured before a pipeline compiles, and their measured ranges;
  /// nullopt if Compile was Unavailable for another reason. Blocks as Compile does.
  virtual std::optional<ColumnWant> MissingColumns(const v1::PipelineText& /*pipeline*/) {
    return std::nullopt;
  }
  /// The plugins, as datasets, that a pipeline names and this process lacks, so that a worker has
  /// to compile it. Empty if the pipeline is better refused here.
  virtual std::vector<std::string> MissingPlugins(const v1::PipelineText& /*pipeline*/) {
    return {};
  }
  /// Reads the plan facts that a worker has compiled. InvalidArgument if they cannot be read.
  virtual Result<std::shared_ptr<const PlanFacts>> Read(const v1::PipelineText& /*pipeline*/,
                                                        const v1::PlanOutline& /*outline*/) {
    return Unimplemented("this process reads no outlines");
  }
  /// The columns of a set, which a worker needs for a pipeline, that have to be measured first, and
  /// their measured ranges; nullopt if all are here now.
  virtual Result<std::optional<ColumnWant>> MissingColumns(const v1::ColumnSet& /*set*/) {
    return std::optional<ColumnWant>();
  }
  /// Where the columns are kept; null: its plans never lack columns.
  virtual std::shared_ptr<ColumnKeeper> column_keeper() { return nullptr; }
};

}  // namespace millrace
