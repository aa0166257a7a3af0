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
#include "server/pipeline/text/yaml_reader.h"

namespace millrace {

/// The format version this build reads: `millrace: 1`.
inline constexpr std::int64_t kPipelineFormat = 1;

class PipelineParser {
 public:
  /// Source and table must outlive the parser.
  PipelineParser(const PipelineSource& source, const StageTable& table)
      : source_(source), table_(table) {}

  /// May be called once. InvalidArgument with the place.
  Result<Pipeline> Parse();

 private:
  /// One text that sets parameters.
  struct Layer {
    std::string name;       // stands at the beginning of every message about the layer
    bool has_lines = true;  // messages name line and column
    bool is_file = false;   // in the file itself, null does not reset a parameter
    std::map<std::string, YamlMark> set = {};  // keys that the layer has set, and where
  };
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
  };

  static Origin At(const Layer& layer, YamlMark mark);
  static Status Error(const Layer& layer, YamlMark mark, std::string_view message);

  Status CheckFormat(const Layer& file, const YamlNode& root) const;
  Status ApplyFile();
  Status ApplyVariants(const YamlEntry& variants, State& state);
  Status ApplyOverride(const std::string& text, State& state) const;
  Status ApplyEntry(Layer& layer, const YamlEntry& entry, State& state) const;
  Status ApplyStage(Layer& layer, const StageType& stage, const YamlEntry& entry,
                    State& state) const;
  Status ApplyParameter(Layer& layer, const StageType& stage, std::string_view name,
                        const YamlEntry& entry, State& state) const;
  /// Notes that the layer sets `key`. Fails if the layer has set it before.
  Status Claim(Layer& layer, const std::string& key, YamlMark mark) const;
  Status UnknownKey(const Layer& layer, const YamlEntry& entry) const;

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
