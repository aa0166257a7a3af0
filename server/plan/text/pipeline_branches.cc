// The branches of a pipeline: their keys, and what is made of them.

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/suggestion.h"
#include "common/parameters/parameter.h"
#include "common/tensor/tensor_word.h"
#include "server/plan/text/pipeline_parser.h"
#include "server/plan/text/tensor_keys.h"

namespace millrace {

Status PipelineParser::ApplyBranches(TextLayer& layer, const YamlEntry& entry, State& state) const {
  const YamlNode& value = *entry.value;
  if (value.kind == YamlNode::Kind::kNull && !value.scalar.empty()) {
    MILLRACE_RETURN_IF_ERROR(layer.Claim("branches", entry.mark));
    state.branches.clear();
    return OkStatus();
  }
  if (value.kind != YamlNode::Kind::kMap || value.entries.empty()) {
    return layer.Error(value.mark, fmt::format("branches: expected a map from names to what each "
                                               "branch draws from, or null for none; got {}",
                                               value.Describe()));
  }
  state.branches_origin = layer.At(entry.mark);
  for (const YamlEntry& branch : value.entries) {
    MILLRACE_RETURN_IF_ERROR(ApplyBranch(layer, branch.key, branch, state));
  }
  return OkStatus();
}

Status PipelineParser::ApplyBranch(TextLayer& layer, const std::string& path,
                                   const YamlEntry& entry, State& state) const {
  const auto [name, key] = SplitKey(path);
  if (!IsTensorWord(name)) {
    return layer.Error(entry.mark,
                       fmt::format("branches: a name is one word of at most {} letters, digits and "
                                   "_ that begins with no digit, got '{}'",
                                   kMaxTensorName, ShownName(name)));
  }
  const YamlNode& value = *entry.value;
  std::size_t at = 0;
  while (at < state.branches.size() && state.branches[at].name != name) ++at;
  const bool known = at < state.branches.size();
  if (key.empty() && value.kind == YamlNode::Kind::kNull && !value.scalar.empty()) {
    MILLRACE_RETURN_IF_ERROR(layer.Claim("branches." + name, entry.mark));
    if (known) state.branches.erase(state.branches.begin() + static_cast<std::ptrdiff_t>(at));
    return OkStatus();
  }
  if (key.empty() && value.kind != YamlNode::Kind::kMap) {
    return layer.Error(value.mark, fmt::format("branches.{}: expected a map with the keys of a "
                                               "branch, or null for no such branch; got {}",
                                               name, value.Describe()));
  }
  if (!known) {
    if (state.branches.size() == kMaxBranches) {
      return layer.Error(entry.mark,
                         fmt::format("branches: expected at most {} branches", kMaxBranches));
    }
    state.branches.push_back({NewChain(), name, layer.At(entry.mark)});
    if (state.branches_origin.empty()) state.branches_origin = layer.At(entry.mark);
  }
  Branch& branch = state.branches[at];
  layer.above = fmt::format("branches.{}.", name);
  Status status;
  if (!key.empty()) {
    status = ApplyToBranch(layer, {key, entry.mark, entry.value}, branch);
  } else {
    for (const YamlEntry& one : value.entries) {
      if (status.ok()) status = ApplyToBranch(layer, one, branch);
    }
  }
  layer.above.clear();
  return status;
}

Status PipelineParser::ApplyToBranch(TextLayer& layer, const YamlEntry& entry,
                                     Branch& branch) const {
  const std::string first = SplitKey(entry.key).first;
  const StageType* const stage = table_.Find(first);
  const bool of_branch = first == "dataset" || first == "tensors" || IsReserved(first, "") ||
                         (stage != nullptr && stage->level == StageLevel::kBranch);
  if (of_branch) return ApplyToChain(layer, entry, branch);
  std::vector<std::string> known = {"dataset"};
  for (const StageType& type : table_.stages()) {
    if (type.level == StageLevel::kBranch) known.push_back(type.name);
  }
  known.emplace_back("tensors");
  const bool outside = stage != nullptr || TensorsText::Owns(first) || MixText::Owns(first);
  return layer.Error(
      entry.mark,
      fmt::format("branches.{}: {}; expected one of {}", branch.name,
                  outside ? fmt::format("{} stands outside the branches", first)
                          : fmt::format("unknown key '{}'{}", entry.key, Suggestion(first, known)),
                  fmt::join(known, ", ")));
}

Status PipelineParser::CheckOutside() const {
  const auto refuse = [&](const Origin& origin, std::string_view key, std::string_view why) {
    return InvalidArgument(fmt::format("{}: {} {}", origin, key, why));
  };
  constexpr std::string_view kInside = "stands in the branches of a pipeline that has any";
  if (!state_.dataset.empty()) return refuse(state_.dataset_origin, "dataset", kInside);
  for (const StageType& stage : table_.stages()) {
    const auto written = state_.stages.find(stage.name);
    if (written == state_.stages.end()) continue;
    const StageState& state = written->second;
    if (stage.level == StageLevel::kBranch && (state.present || !state.params.empty())) {
      return refuse(state.origin, stage.name, kInside);
    }
    const std::string& never = stage.not_with_branches;
    const std::string group = SplitKey(never).second;
    for (const auto& [name, value] : state.params) {
      if (never.empty() || !(group.empty() || name.starts_with(group + "."))) continue;
      return refuse(value.origin, never, "beside branches is not yet supported");
    }
  }
  return OkStatus();
}

Status PipelineParser::CheckAllOrNone(const Pipeline& pipeline) const {
  for (const StageType& stage : table_.stages()) {
    if (!stage.of_all_branches) continue;
    const Branch* with = nullptr;
    const Branch* without = nullptr;
    for (std::size_t i = 0; i < state_.branches.size(); ++i) {
      const bool has = pipeline.branches()[i].pipeline->Find(stage.name) != nullptr;
      (has ? with : without) = &state_.branches[i];
    }
    if (with == nullptr || without == nullptr) continue;
    return InvalidArgument(fmt::format(
        "{}: branches.{}.{}: the key is missing; expected it in all branches or in none, and {} "
        "has it",
        without->origin, without->name, stage.name, with->name));
  }
  return OkStatus();
}

Status PipelineParser::FinishBranches(Pipeline& pipeline) const {
  std::vector<std::string> names;
  for (const Branch& branch : state_.branches) {
    names.push_back(branch.name);
    Chain chain = branch;
    for (const StageType& stage : table_.stages()) {
      const auto outside = state_.stages.find(stage.name);
      if (stage.level != StageLevel::kEveryBranch || outside == state_.stages.end()) continue;
      chain.stages[stage.name] = outside->second;
    }
    Pipeline finished;
    MILLRACE_RETURN_IF_ERROR(FinishDataset(
        chain, branch.origin, fmt::format("branches.{}.dataset", branch.name), finished));
    MILLRACE_RETURN_IF_ERROR(FinishStages(
        chain, branch.origin,
        [](const StageType& stage) { return stage.level != StageLevel::kMix; }, finished));
    for (const std::string& key : finished.unused_keys_) {
      pipeline.unused_keys_.push_back(fmt::format("branches.{}.{}", branch.name, key));
    }
    SetDigests(finished);
    std::vector<std::string>& ids = pipeline.datasets_;
    if (std::find(ids.begin(), ids.end(), finished.dataset()) == ids.end()) {
      ids.push_back(finished.dataset());
    }
    pipeline.branches_.push_back(
        {branch.name, std::make_shared<const Pipeline>(std::move(finished))});
  }
  MILLRACE_RETURN_IF_ERROR(CheckAllOrNone(pipeline));
  MILLRACE_ASSIGN_OR_RETURN(pipeline.mix_, state_.mix.Finish(names, state_.branches_origin));
  return OkStatus();
}

}  // namespace millrace
