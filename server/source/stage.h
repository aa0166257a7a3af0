// Stages: what a pipeline consists of. A stage is one file in server/plan and one
// line in the stage table (stage_table.cc); a kind of dataset brings further ones. A stage has a
// name, parameters with defaults and help, a version, a place, and its code.
//
// Value types and pure functions. They use no clock, and no randomness except that of a plan's
// keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace millrace {

class PlanParts;

/// A value of any shape, whose parts somebody else checks: one line of JSON with sorted keys.
struct ParamTree {
  std::string json;
  friend bool operator==(const ParamTree&, const ParamTree&) = default;
};

/// A parameter's value. monostate stands for null, and for a parameter that is absent by default.
using ParamValue =
    std::variant<std::monostate, bool, std::int64_t, std::string, std::vector<std::int64_t>,
                 std::vector<std::string>, std::vector<std::vector<std::string>>, ParamTree>;

enum class ParamType : std::uint8_t {
  kBool,
  kInt,
  kSeed,  // an integer of [0, 2^64), in the bits of an int64
  kString,
  kIntList,
  kStringList,
  kStringLists,
  kTree,  // a map of whatever
};

/// One parameter of a stage. The user writes it below the stage's key.
struct Parameter {
  std::string name;
  std::vector<ParamType> types;  // any of these is accepted; the first is the usual one
  ParamValue default_value;
  std::string help;                 // one line
  std::optional<std::int64_t> min;  // for integers, inclusive
  std::optional<std::int64_t> max;
  std::vector<std::string> allowed;  // for strings; empty: any string that is not empty
  /// The parameter must be written whenever its stage is written. If its default is null, the stage
  /// must be written too.
  bool required = false;
  /// Order and repetition have no meaning in a list. For a list of lists this holds for the inner
  /// lists.
  bool unordered = false;
  /// False if the parameter only selects examples. Then it is no part of the build digest.
  bool in_build = true;
  /// False if the parameter leaves every example in its place. Then it is no part of the order
  /// digest, and a cursor stays good if it changes.
  bool in_order = true;
  /// Checks a value that was written, beyond types and ranges. A message that begins with ".a: " or
  /// ".a.b: " is about what stands under these keys of a tree.
  std::function<Status(const ParamValue&)> check = {};
  /// Other defaults for some sources, by their names.
  std::map<std::string, ParamValue, std::less<>> default_of_source = {};
  /// Another default where another parameter of the stage has this value.
  struct OtherDefault {
    std::string parameter;
    ParamValue value;
    ParamValue default_value;
  };
  std::optional<OtherDefault> default_beside = {};

  /// `values`: those of the stage, by the names of parameters.
  const ParamValue& DefaultFor(std::string_view source,
                               const std::map<std::string, ParamValue>& values) const {
    if (default_beside) {
      const auto other = values.find(default_beside->parameter);
      if (other != values.end() && other->second == default_beside->value) {
        return default_beside->default_value;
      }
    }
    const auto found = default_of_source.find(source);
    return found == default_of_source.end() ? default_value : found->second;
  }
};

/// Where a stage's code runs.
enum class StagePlace : std::uint8_t { kPlan, kWorker, kConsumer, kDevice };
std::string_view StagePlaceName(StagePlace place);

/// The parameters of one stage of a pipeline, with defaults filled in. Keys are parameter names.
class Params {
 public:
  Params() = default;
  /// `source`: the pipeline's source, which may have defaults of its own.
  explicit Params(std::map<std::string, ParamValue> values, std::string source = "")
      : values_(std::move(values)), source_(std::move(source)) {}

  const std::map<std::string, ParamValue>& values() const { return values_; }
  /// The pipeline's source.
  const std::string& source() const { return source_; }
  bool is_set(std::string_view name) const;
  /// Whether the parameter has its default.
  bool IsDefault(const Parameter& parameter) const {
    return values_.at(parameter.name) == parameter.DefaultFor(source_, values_);
  }
  /// REQUIRES: the parameter exists and has this type. The pipeline's checks make sure of it.
  bool GetBool(std::string_view name) const;
  std::int64_t GetInt(std::string_view name) const;
  std::uint64_t GetSeed(std::string_view name) const {
    return static_cast<std::uint64_t>(GetInt(name));
  }
  const std::string& GetString(std::string_view name) const;
  /// A single integer counts as a list of one.
  std::vector<std::int64_t> GetInts(std::string_view name) const;
  const std::vector<std::string>& GetStrings(std::string_view name) const;
  const std::vector<std::vector<std::string>>& GetStringLists(std::string_view name) const;

 private:
  std::map<std::string, ParamValue> values_;
  std::string source_;
};

/// Where a stage stands in a pipeline with branches.
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
  /// Whether it is about graphs, and the names of the sources that have none: to pipelines with one
  /// of these it is not shown.
  bool of_graphs = false;
  std::vector<std::string> sources_without_graphs = {};
  /// Checks rules that concern several parameters, beyond types and ranges. It sees only values
  /// that are used. A message that begins with "<parameter>: " is reported at the place of that
  /// parameter.
  std::function<Status(const Params&)> check;
  /// Gives the stage's parts to a plan. Stages are called in the table's order.
  std::function<Status(const Params&, PlanParts&)> compile;
  /// True: if the file does not have the stage, neither does the plan (shuffle). False: the plan
  /// has the stage with its defaults. The canonical text shows that an optional stage is present:
  /// it has the stage's first parameter even if that has its default value.
  bool optional = false;
  /// True: the stage is written `name: value`, with the value of its first parameter (source), or
  /// `name: {value: other}`. The latter also sets the parameter with the name `value`, if there is
  /// one; otherwise `other` has to be {}. Beside `value` may stand parameters that are named as
  /// none of the first one's allowed values.
  bool scalar = false;
  /// False if the stage leaves every example in its place (exclude). Such a stage is not part of
  /// the order digest or of stage fingerprints.
  bool in_order = true;
  /// False if the stage decides only which examples an epoch has, and in which order. Then it is no
  /// part of the build digest.
  bool in_build = true;
  /// False if the stage changes nothing of what is delivered (cache). Then it is no part of any
  /// digest. `in_order` and `in_build` have to be false too.
  bool in_digest = true;
  StageLevel level = StageLevel::kBranch;
  /// The stage, or a group of its parameters, that a pipeline with branches cannot have yet; empty:
  /// none. It is the stage's name, or "stage.group".
  std::string not_with_branches = {};
  /// The id of the dataset of a pipeline that names none; only the stage `source` has it.
  /// Empty: it has to name one.
  std::function<std::string(const Params&)> own_dataset = {};
  /// Parameters of a later format: they are refused as not yet supported.
  std::vector<std::string> reserved = {};
  /// Groups of parameters. The group `bucket` of `batch` has the parameters whose names begin with
  /// "bucket."; they are written `batch: {bucket: {by: …}}`, or `batch.bucket.by=…`. The value null
  /// stands for none of them.
  std::vector<std::string> groups = {};

  /// The parameter with this name, or nullptr.
  const Parameter* FindParameter(std::string_view wanted) const;
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
