// The sources of a kind of dataset: their names, and the functions that make them.
//
// Immutable once made; thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "server/source/stage.h"

namespace millrace {

class Dataset;
class PlanParts;
class Source;

/// Makes a source for a plan. `dataset` is the one that the pipeline names, of the kind that has
/// the table. A source reads the parts that concern it.
using SourceFactory = std::function<Result<std::shared_ptr<const Source>>(
    std::shared_ptr<const Dataset> dataset, const PlanParts& parts)>;

/// One source: a line of the table.
struct SourceType {
  /// `source: name`, or `source: {name: argument}`. No two kinds have sources of one name.
  std::string name;
  std::string help;  // what an example is
  SourceFactory make;
  /// A value for the source. A pipeline sets it as `source: {name: value}`; its key is
  /// `source.name`. Its own name is not used. If it has no default, it has to be given.
  std::optional<Parameter> argument = {};
  /// Defaults of keys that differ from the usual ones, by "stage.parameter".
  std::map<std::string, ParamValue> defaults = {};
  /// Further values, which are written beside the argument: `source: {name: value, option: …}`.
  /// Options of the same name in several sources are the same option.
  std::vector<Parameter> options = {};
  /// The id of the dataset that a pipeline without `dataset:` draws from, made from the argument;
  /// null: a dataset has to be named.
  std::function<std::string(const ParamValue& argument)> own_dataset = {};
  bool has_graphs = false;  // whether examples are graphs
};

class SourceTable {
 public:
  SourceTable() = default;
  explicit SourceTable(std::vector<SourceType> sources) : sources_(std::move(sources)) {}

  std::span<const SourceType> sources() const { return sources_; }
  /// Makes the source with this name. InvalidArgument, with the known names, if the name is
  /// unknown; errors of the factory.
  Result<std::shared_ptr<const Source>> Make(std::string_view name,
                                             std::shared_ptr<const Dataset> dataset,
                                             const PlanParts& parts) const;

 private:
  std::vector<SourceType> sources_;
};

}  // namespace millrace
