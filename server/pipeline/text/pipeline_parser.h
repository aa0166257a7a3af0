// From a pipeline's text, variant and overrides to a checked Pipeline, driven by the stage table.
//
// Every layer (the file, then the variant, then each override) becomes settings of parameters; a
// later layer's settings replace an earlier one's. What the layers leave open has its default.
// Checks across parameters run on the outcome alone, so that a layer may repair what one before it
// broke.
//
// Not thread-safe; one parser a pipeline.
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
  /// Source and table have to outlive the parser.
  PipelineParser(const PipelineSource& source, const StageTable& table)
      : source_(source), table_(table) {}

  /// Once. InvalidArgument with the place.
  Result<Pipeline> Parse();

 private:
  /// One text that sets parameters.
  struct Layer {
    std::string name;                          // begins every message about it
    bool has_lines = true;                     // its messages name line and column
    bool is_file = false;                      // null does not reset a parameter there
    std::map<std::string, YamlMark> set = {};  // keys that it has set, and where
  };
  /// Where a value comes from, as messages say it.
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
  /// Notes that the layer sets `key`; an error where it has done so before.
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
