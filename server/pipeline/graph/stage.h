// Stages: the parts of a pipeline. A stage is one file in server/pipeline/stages and one line in
// the stage table (stage_table.cc): name, parameters with defaults and help, version, place, and
// its code.
//
// Value types and pure functions; no clock and no randomness but what a plan's keys give.
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

class PlanDraft;

/// A parameter's value. monostate: null, or absent where the default is absence.
using ParamValue =
    std::variant<std::monostate, bool, std::int64_t, std::string, std::vector<std::int64_t>,
                 std::vector<std::string>, std::vector<std::vector<std::string>>>;

enum class ParamType : std::uint8_t { kBool, kInt, kString, kIntList, kStringList, kStringLists };

/// One parameter of a stage, as the user writes it below the stage's key.
struct Parameter {
  std::string name;
  std::vector<ParamType> types;  // any of these is accepted; the first is the usual one
  ParamValue default_value;
  std::string help;                 // one line
  std::optional<std::int64_t> min;  // of integers, inclusive
  std::optional<std::int64_t> max;
  std::vector<std::string> allowed;  // of strings; empty: any that is not empty
  /// Has to be written where its stage is written; with a null default the stage has to be, too.
  bool required = false;
  /// Order and repetition mean nothing in a list (in the inner ones, of a list of lists).
  bool unordered = false;
};

/// Where a stage's code runs.
enum class StagePlace : std::uint8_t { kPlan, kWorker, kConsumer, kDevice };
std::string_view StagePlaceName(StagePlace place);

/// The parameters of one stage of a pipeline, defaults filled in. Keys are parameter names.
class Params {
 public:
  Params() = default;
  explicit Params(std::map<std::string, ParamValue> values) : values_(std::move(values)) {}

  const std::map<std::string, ParamValue>& values() const { return values_; }
  bool is_set(std::string_view name) const;
  /// REQUIRES: the parameter exists and has this type (the pipeline's checks made sure).
  bool GetBool(std::string_view name) const;
  std::int64_t GetInt(std::string_view name) const;
  const std::string& GetString(std::string_view name) const;
  /// An integer counts as a list of one.
  std::vector<std::int64_t> GetInts(std::string_view name) const;
  const std::vector<std::string>& GetStrings(std::string_view name) const;
  const std::vector<std::vector<std::string>>& GetStringLists(std::string_view name) const;

 private:
  std::map<std::string, ParamValue> values_;
};

/// A kind of stage: one line of the table.
struct StageType {
  std::string name;  // the key in the pipeline file
  StagePlace place = StagePlace::kPlan;
  std::uint32_t version = 1;  // rises when the same parameters give other bytes
  std::string help;           // one line
  std::vector<Parameter> parameters;
  /// Names of the parameters that mean nothing with this `source:` or beside the other values. They
  /// are accepted where written, listed as unused, and keep their defaults in the plan and its
  /// digest.
  std::function<std::vector<std::string>(std::string_view source, const Params&)> unused;
  /// Checks across parameters, beyond types and ranges, on the values that are used. A message that
  /// begins with "<parameter>: " is reported at the place of that parameter.
  std::function<Status(const Params&)> check;
  /// Puts the stage into a plan under construction, in the table's order.
  std::function<Status(const Params&, PlanDraft&)> compile;
  /// A stage that is absent from the file is absent from the plan (shuffle); others are there with
  /// their defaults. The canonical text names every present optional stage: its first parameter is
  /// written there also at its default.
  bool optional = false;
  /// Written `name: value`, the value being that of its only parameter (source).
  bool scalar = false;
  /// False for what leaves every example in its place (exclude): no part of the order digest and of
  /// stage fingerprints.
  bool in_order = true;
  /// Parameters of a later format: refused as not yet supported.
  std::vector<std::string> reserved = {};
};

/// The table, in the order in which stages apply. Tests extend it.
class StageTable {
 public:
  /// Every stage of the product.
  static const StageTable& Default();
  explicit StageTable(std::vector<StageType> stages) : stages_(std::move(stages)) {}

  std::span<const StageType> stages() const { return stages_; }
  /// The stage, or nullptr.
  const StageType* Find(std::string_view name) const;
  /// This table with one more stage, placed before the stage named `before`, which has to exist.
  StageTable With(StageType stage, std::string_view before) const;
  /// This table with one more name that `source:` accepts.
  StageTable WithSource(std::string name) const;

 private:
  std::vector<StageType> stages_;
};

}  // namespace millrace
