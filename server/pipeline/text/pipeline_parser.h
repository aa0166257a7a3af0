// Turns a pipeline's text, variant and overrides into a checked Pipeline. The stage table drives
// the parser.
//
// Every layer (the file, then the variant, then each override) becomes settings of parameters. The
// settings of a later layer replace those of an earlier one. A parameter that no layer sets has its
// default. Checks that concern several parameters run only on the final result, so a layer may
// repair an error of an earlier one.
//
// Not thread-safe; use one parser for each pipeline.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "server/pipeline/graph/stage.h"
#include "server/pipeline/text/pipeline.h"
#include "server/pipeline/text/tensors_text.h"
#include "server/pipeline/text/text_layer.h"
#include "server/pipeline/text/yaml_reader.h"

namespace millrace {

/// The format version this build reads: `millrace: 1`.
inline constexpr std::int64_t kPipelineFormat = 1;

class PipelineParser {
 public:
  /// Source and tables must outlive the parser.
  PipelineParser(const PipelineSource& source, const StageTable& table,
                 const OperationTable& operations)
      : source_(source), table_(table), state_{"", {}, TensorsText(operations, source.yaml)} {}

  /// May be called once. InvalidArgument with the place.
  Result<Pipeline> Parse();

 private:
  /// The place where a value was set, in the form that messages use.
  using Origin = std::string;
  struct Written {
    ParamValue value;
    Origin origin;
  };
  struct StageState {
    bool present = false;
    Origin origin;
    std::map<std::string, Written> params;
  };
  struct State {
    std::string dataset;
    std::map<std::string, StageState> stages;
    TensorsText tensors;
  };

  Status CheckFormat(const TextLayer& file, const YamlNode& root) const;
  Status ApplyFile();
  Status ApplyVariants(const YamlEntry& variants, State& state);
  Status ApplyOverride(const std::string& text, State& state) const;
  Status ApplyEntry(TextLayer& layer, const YamlEntry& entry, State& state) const;
  Status ApplyStage(TextLayer& layer, const StageType& stage, const YamlEntry& entry,
                    State& state) const;
  Status ApplyParameter(TextLayer& layer, const StageType& stage, std::string_view name,
                        const YamlEntry& entry, State& state) const;
  /// Reads `stage: {group: {parameter: value, …}}`, or null for no such parameters.
  Status ApplyGroup(TextLayer& layer, const StageType& stage, const std::string& group,
                    const YamlEntry& entry, State& state) const;
  /// Reads `name: {value: other}` for a scalar stage.
  Status ApplyChoice(TextLayer& layer, const StageType& stage, const YamlEntry& entry,
                     State& state) const;
  Status SetParameter(TextLayer& layer, const StageType& stage, const Parameter& parameter,
                      const YamlEntry& entry, State& state) const;
  Status UnknownKey(const TextLayer& layer, const YamlEntry& entry) const;
  static Status UnknownParameter(const TextLayer& layer, const StageType& stage,
                                 std::string_view name, const YamlEntry& entry);

  Result<Pipeline> Finish();
  Result<StageConfig> FinishStage(const StageType& stage, const StageState& state,
                                  std::vector<std::string>& unused) const;
  Status CheckRequired(const StageType& stage, const StageState& state) const;
  Status CheckAcross(const StageType& stage, const StageState& state, const Params& params) const;

  const PipelineSource& source_;
  const StageTable& table_;
  State state_;
  std::vector<std::string> variants_;
  std::string source_name_;  // the value of `source:`
};

}  // namespace millrace
