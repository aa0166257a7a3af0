// Turns a pipeline's text, variant and overrides into a checked Pipeline. The stage table drives
// the parser.
//
// Every layer (the file, then the variant, then each override) becomes settings of parameters. The
// settings of a later layer replace the settings of an earlier one. A parameter that no layer sets
// has its default. Checks that concern several parameters run only on the final result, so a layer
// may repair an error of an earlier one.
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
#include "server/plan/text/mix_text.h"
#include "server/plan/text/pipeline.h"
#include "server/plan/text/tensors_text.h"
#include "server/plan/text/text_layer.h"
#include "server/source/stage.h"
#include "server/yaml/yaml_reader.h"

namespace millrace {

/// The format version this build reads: `millrace: 1`.
inline constexpr std::int64_t kPipelineFormat = 1;

class PipelineParser {
 public:
  /// Source and tables must outlive the parser.
  PipelineParser(const PipelineSource& source, const StageTable& table,
                 const OperationTable& operations)
      : source_(source), table_(table), operations_(operations), state_(NewState()) {}

  /// May be called once. InvalidArgument with the place.
  Result<Pipeline> Parse();

 private:
  /// The place where a value was set, in the form that messages use.
  using Origin = std::string;
  struct Written {
    ParamValue value;
    Origin origin;
    std::map<std::string, Origin> below = {};  // of the values below a tree, by path
  };
  struct StageState {
    bool present = false;
    Origin origin;
    std::map<std::string, Written> params;
  };
  /// The settings of a source and the order of its examples: a branch, or a pipeline without
  /// branches.
  struct Chain {
    std::string dataset;
    Origin dataset_origin;
    std::map<std::string, StageState> stages;
    TensorsText tensors;
  };
  struct Branch : Chain {
    std::string name;
    Origin origin;
  };
  struct State : Chain {
    std::vector<Branch> branches;
    Origin branches_origin;
    MixText mix;
  };
  Chain NewChain() const { return {"", {}, {}, TensorsText(operations_, source_.yaml)}; }
  State NewState() const { return {NewChain(), {}, {}, {}}; }

  /// Whether only a later format has a key.
  bool IsReserved(std::string_view stage, std::string_view parameter) const;
  Status CheckFormat(const TextLayer& file, const YamlNode& root) const;
  Status ApplyFile();
  Status ApplyVariants(const YamlEntry& variants, State& state);
  Status ApplyOverride(const std::string& text, State& state) const;
  Status ApplyEntry(TextLayer& layer, const YamlEntry& entry, State& state) const;
  static Status EndLayer(State& state);
  Status ApplyBranches(TextLayer& layer, const YamlEntry& entry, State& state) const;
  /// `path`: the name of a branch, or of one and of a key in it.
  Status ApplyBranch(TextLayer& layer, const std::string& path, const YamlEntry& entry,
                     State& state) const;
  Status ApplyToBranch(TextLayer& layer, const YamlEntry& entry, Branch& branch) const;
  Status ApplyToChain(TextLayer& layer, const YamlEntry& entry, Chain& chain) const;
  Status ApplyStage(TextLayer& layer, const StageType& stage, const YamlEntry& entry,
                    Chain& state) const;
  Status ApplyParameter(TextLayer& layer, const StageType& stage, std::string_view name,
                        const YamlEntry& entry, Chain& state) const;
  /// Sets the value at a place in a tree: `source.args.size`.
  Status ApplyInTree(TextLayer& layer, const StageType& stage, const Parameter& tree,
                     const std::string& path, const YamlEntry& entry, Chain& state) const;
  /// Reads `stage: {group: {parameter: value, …}}`, or null for no such parameters.
  Status ApplyGroup(TextLayer& layer, const StageType& stage, const std::string& group,
                    const YamlEntry& entry, Chain& state) const;
  /// Reads `name: {value: other, parameter: …}` for a scalar stage.
  Status ApplyChoice(TextLayer& layer, const StageType& stage, const YamlEntry& entry,
                     Chain& state) const;
  Status SetParameter(TextLayer& layer, const StageType& stage, const Parameter& parameter,
                      const YamlEntry& entry, Chain& state) const;
  Status UnknownKey(const TextLayer& layer, const YamlEntry& entry) const;
  static Status UnknownParameter(const TextLayer& layer, const StageType& stage,
                                 std::string_view name, const YamlEntry& entry);

  Result<Pipeline> Finish();
  /// Checks that no key outside belongs into branches, or cannot be used with branches yet.
  Status CheckOutside() const;
  Status FinishBranches(Pipeline& pipeline) const;
  /// Checks the stages that all branches have, or none.
  Status CheckAllOrNone(const Pipeline& pipeline) const;
  /// Sets the dataset that a chain names, or that its source has by itself. InvalidArgument if
  /// there is no dataset. `key`: of the dataset, for messages.
  Status FinishDataset(const Chain& chain, const Origin& origin, std::string_view key,
                       Pipeline& pipeline) const;
  /// Finishes the stages that `has` accepts. `origin`: the place of the whole, for messages.
  Status FinishStages(const Chain& chain, const Origin& origin,
                      const std::function<bool(const StageType&)>& has, Pipeline& pipeline) const;
  static void SetDigests(Pipeline& pipeline);
  Result<StageConfig> FinishStage(const StageType& stage, const StageState& state,
                                  const Origin& origin, const std::string& source,
                                  std::vector<std::string>& unused) const;
  static Status CheckRequired(const StageType& stage, const StageState& state,
                              const Origin& origin);
  static Status CheckAcross(const StageType& stage, const StageState& state, const Params& params,
                            const Origin& origin);

  const PipelineSource& source_;
  const StageTable& table_;
  const OperationTable& operations_;
  State state_;
  std::vector<std::string> variants_;
};

}  // namespace millrace
