// Stages, of which a pipeline consists. A stage is one file in server/plan and one line in the
// stage table (stage_table.cc); a kind of dataset adds further stages. A stage has a name,
// parameters with defaults and help, a version, a place, and its code.
//
// Value types and pure functions. They use no clock, and no randomness except from a plan's keys.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/parameters/params.h"

namespace millrace {

class PlanParts;

/// Where a stage's code runs. Only `millrace inspect` shows it; nothing else depends on it.
enum class StagePlace : std::uint8_t { kPlan, kWorker, kConsumer };
std::string_view StagePlaceName(StagePlace place);

/// Where a stage is written in a pipeline with branches.
enum class StageLevel : std::uint8_t {
  kBranch,       // in a branch
  kEveryBranch,  // outside, where it holds for every branch
  kMix,          // outside
};

/// A kind of stage: one line of the table.
struct StageType {
  std::string name;  // the key in the pipeline file
  StagePlace place = StagePlace::kPlan;
  std::uint32_t version = 1;  // raised when the same parameters give other bytes
  std::string help;           // one line
  std::vector<Parameter> parameters;
  /// Names the parameters that have no meaning with this `source:` or with the other values. They
  /// may be written. They are then listed as unused, and keep their defaults in the plan and its
  /// digest.
  std::function<std::vector<std::string>(std::string_view source, const Params&)> unused;
  /// Whether it is about graphs, and the names of the sources without graphs: pipelines with one of
  /// these do not show the stage.
  bool of_graphs = false;
  std::vector<std::string> sources_without_graphs = {};
  /// Checks rules that concern several parameters, beyond types and ranges. It sees only values
  /// that are used. A message that begins with "<parameter>: " is reported at the place of that
  /// parameter.
  std::function<Status(const Params&)> check;
  /// Gives the stage's parts to a plan. Stages are called in the table's order. The code that needs
  /// a part reads it with `parts.Get<Part>()`: MakeOrder and Selection (server/plan/order),
  /// MakePlanSource, and the sources.
  std::function<Status(const Params&, PlanParts&)> compile;
  /// True: if the file does not have the stage, neither does the plan (shuffle). False: the plan
  /// has the stage with its defaults. The canonical text shows that an optional stage is present:
  /// it has the stage's first parameter even if that has its default value.
  bool optional = false;
  /// True: the stage is written `name: value`, with the value of its first parameter (source), or
  /// `name: {value: other}`. The latter also sets the parameter with the name `value`, if there is
  /// one; otherwise `other` has to be {}. Further parameters may be written beside `value` if their
  /// names are not allowed values of the first one.
  bool scalar = false;
  /// False if the stage leaves every example in its place (exclude). Such a stage is not part of
  /// the order digest or of stage fingerprints.
  bool in_order = true;
  /// False if the stage decides only which examples an epoch has, and in which order. Then it is
  /// not part of the build digest.
  bool in_build = true;
  /// False if the stage does not change delivered batches (cache). Then it is not part of any
  /// digest. `in_order` and `in_build` have to be false too.
  bool in_digest = true;
  StageLevel level = StageLevel::kBranch;
  /// Whether all branches of a pipeline have the stage, or none has it.
  bool of_all_branches = false;
  /// The stage, or a group of its parameters, that a pipeline with branches cannot have yet; empty:
  /// no limit. It is the stage's name, or "stage.group".
  std::string not_with_branches = {};
  /// The id of the dataset of a pipeline that names no dataset; only the stage `source` has it.
  /// Empty: the pipeline has to name one.
  std::function<std::string(const Params&)> own_dataset = {};
  /// Parameters of a later format: they are refused as not yet supported.
  std::vector<std::string> reserved = {};
  /// Groups of parameters. The group `bucket` of `batch` has the parameters whose names begin with
  /// "bucket."; they are written `batch: {bucket: {by: …}}`, or `batch.bucket.by=…`. The value null
  /// means no group.
  std::vector<std::string> groups = {};

  /// The parameter with this name, or nullptr.
  const Parameter* Find(std::string_view parameter) const {
    return FindParameter(parameters, parameter);
  }
};

/// A stage that goes into a table before the stage named `before`. If the table has a stage of the
/// same name, that one gets the parameters besides its own.
struct AddedStage {
  StageType stage;
  std::string before;
};

/// The table of stages, in the order in which they apply.
class StageTable {
 public:
  explicit StageTable(std::vector<StageType> stages) : stages_(std::move(stages)) {}

  std::span<const StageType> stages() const { return stages_; }
  /// The stage with this name, or nullptr.
  const StageType* Find(std::string_view name) const;
  /// Returns this table with one more stage, placed before the stage named `before`. REQUIRES: that
  /// stage exists.
  StageTable With(StageType stage, std::string_view before) const;
  /// Returns this table with a stage, or with more parameters of one.
  StageTable With(AddedStage added) const;
  /// Returns this table with another default of "stage.parameter" for pipelines with a source.
  /// REQUIRES: the parameter exists.
  StageTable WithDefault(std::string_view key, const std::string& source, ParamValue value) const;

 private:
  std::vector<StageType> stages_;
};

}  // namespace millrace
