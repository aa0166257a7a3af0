#include "server/plan/text/pipeline_parser.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/suggestion.h"
#include "server/plan/text/canonical.h"
#include "server/yaml/read_parameter.h"

namespace millrace {
namespace {

/// Top-level keys that only a later format has.
constexpr std::array<std::string_view, 3> kReserved = {"map", "select", "repeat"};

/// The keys of a stage: its groups, and its other parameters.
std::vector<std::string> KeysOf(const StageType& stage) {
  std::vector<std::string> keys;
  for (const Parameter& parameter : stage.parameters) {
    std::string key = parameter.name.substr(0, parameter.name.find('.'));
    if (keys.empty() || keys.back() != key) keys.push_back(std::move(key));
  }
  return keys;
}

/// The names of a group's parameters, without the group.
std::vector<std::string> KeysOf(const StageType& stage, const std::string& group) {
  std::vector<std::string> keys;
  for (const Parameter& parameter : stage.parameters) {
    if (parameter.name.starts_with(group + ".")) {
      keys.push_back(parameter.name.substr(group.size() + 1));
    }
  }
  return keys;
}

bool IsGroup(const StageType& stage, std::string_view name) {
  return std::find(stage.groups.begin(), stage.groups.end(), name) != stage.groups.end();
}

const YamlEntry* FindEntry(const YamlNode& map, std::string_view key) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(),
                                  [&](const YamlEntry& entry) { return entry.key == key; });
  return found == map.entries.end() ? nullptr : &*found;
}

/// The parameter that is a tree in which a name with dots says a place: `args` of `args.size`; null
/// if there is none.
const Parameter* TreeAbove(const StageType& stage, std::string_view name) {
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    const Parameter* const parameter = stage.Find(name.substr(0, dot));
    if (parameter != nullptr && parameter->types.front() == ParamType::kTree) return parameter;
  }
  return nullptr;
}

/// A map in which the value at a place is another one. `at` is the place of the map itself.
/// InvalidArgument, beginning with it, for a place in what is no map.
Result<YamlNode> WithValueAt(const YamlNode& map, const std::string& at, const std::string& path,
                             YamlPtr value, YamlMark mark) {
  if (map.kind != YamlNode::Kind::kMap) {
    return InvalidArgument(
        fmt::format("{}: expected a map in which to set {}, got {}", at, path, map.Describe()));
  }
  const std::pair<std::string, std::string> split = SplitKey(path);
  const std::string& key = split.first;
  const std::string& rest = split.second;
  YamlNode changed = map;
  auto found = std::find_if(changed.entries.begin(), changed.entries.end(),
                            [&](const YamlEntry& entry) { return entry.key == key; });
  if (found == changed.entries.end()) {
    auto empty = std::make_shared<YamlNode>();
    empty->kind = YamlNode::Kind::kMap;
    found = changed.entries.insert(found, {key, mark, std::move(empty)});
  }
  if (!rest.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(YamlNode below,
                              WithValueAt(*found->value, fmt::format("{}.{}", at, key), rest,
                                          std::move(value), mark));
    value = std::make_shared<YamlNode>(std::move(below));
  }
  changed.nodes += value->nodes;
  found->value = std::move(value);
  return changed;
}

std::string Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

}  // namespace

bool PipelineParser::IsReserved(std::string_view stage, std::string_view parameter) const {
  const StageType* type = table_.Find(stage);
  if (type == nullptr)
    return std::find(kReserved.begin(), kReserved.end(), stage) != kReserved.end();
  return std::find(type->reserved.begin(), type->reserved.end(), parameter) != type->reserved.end();
}

Result<Pipeline> PipelineParser::Parse() {
  MILLRACE_RETURN_IF_ERROR(ApplyFile());
  for (const std::string& text : source_.overrides) {
    MILLRACE_RETURN_IF_ERROR(ApplyOverride(text, state_));
  }
  return Finish();
}

Status PipelineParser::CheckFormat(const TextLayer& file, const YamlNode& root) const {
  if (root.kind != YamlNode::Kind::kMap) {
    return file.Error(
        {1, 1}, fmt::format("expected a pipeline, a map that begins with 'millrace: {}', got {}",
                            kPipelineFormat, root.Describe()));
  }
  const YamlEntry* version = FindEntry(root, "millrace");
  if (version == nullptr) {
    return file.Error({1, 1}, fmt::format("the key millrace, the format's version, is missing; "
                                          "expected 'millrace: {}'",
                                          kPipelineFormat));
  }
  if (version->value->quoted || version->value->scalar != std::to_string(kPipelineFormat)) {
    return file.Error(version->value->mark,
                      fmt::format("millrace: this build reads version {} of the format, got {}",
                                  kPipelineFormat, version->value->Describe()));
  }
  return OkStatus();
}

Status PipelineParser::ApplyFile() {
  TextLayer file;
  file.name = source_.name;
  file.is_file = true;
  MILLRACE_ASSIGN_OR_RETURN(const YamlPtr root, ReadYaml(source_.yaml, source_.name));
  MILLRACE_RETURN_IF_ERROR(CheckFormat(file, *root));
  for (const YamlEntry& entry : root->entries) {
    if (entry.key == "millrace" || entry.key == "variants") continue;
    MILLRACE_RETURN_IF_ERROR(ApplyEntry(file, entry, state_));
  }
  MILLRACE_RETURN_IF_ERROR(EndLayer(state_));
  const YamlEntry no_variants{"variants", {1, 1}, std::make_shared<YamlNode>()};
  const YamlEntry* variants = FindEntry(*root, "variants");
  return ApplyVariants(variants == nullptr ? no_variants : *variants, state_);
}

Status PipelineParser::ApplyVariants(const YamlEntry& variants, State& state) {
  const LayerName file{source_.name};
  if (variants.value->kind != YamlNode::Kind::kMap &&
      variants.value->kind != YamlNode::Kind::kNull) {
    return file.Error(variants.value->mark,
                      fmt::format("variants: expected a map from names to keys, got {}",
                                  variants.value->Describe()));
  }
  std::optional<State> chosen;
  for (const YamlEntry& variant : variants.value->entries) {
    if (variant.value->kind != YamlNode::Kind::kMap) {
      return file.Error(variant.value->mark,
                        fmt::format("variants.{}: expected a map such as {{split.take: 1}}, got {}",
                                    variant.key, variant.value->Describe()));
    }
    // Variants that are not chosen are checked too: a mistake in one should not wait for its first
    // use.
    TextLayer layer;
    layer.name = source_.name;
    State changed = state;
    for (const YamlEntry& entry : variant.value->entries) {
      MILLRACE_RETURN_IF_ERROR(ApplyEntry(layer, entry, changed));
    }
    MILLRACE_RETURN_IF_ERROR(EndLayer(changed));
    if (variant.key == source_.variant) chosen = std::move(changed);
    variants_.push_back(variant.key);
  }
  if (source_.variant.empty()) return OkStatus();
  if (!chosen) {
    const std::string known = variants_.empty()
                                  ? std::string("the file has none")
                                  : fmt::format("expected one of {}", fmt::join(variants_, ", "));
    return file.Error(variants.mark, fmt::format("there is no variant '{}'{}; {}", source_.variant,
                                                 Suggestion(source_.variant, variants_), known));
  }
  state = *std::move(chosen);
  return OkStatus();
}

Status PipelineParser::ApplyOverride(const std::string& text, State& state) const {
  constexpr std::size_t kShown = 100;
  const std::string shown = text.size() <= kShown ? text : text.substr(0, kShown) + "…";
  TextLayer layer;
  layer.name = fmt::format("override '{}'", shown);
  layer.has_lines = false;
  const std::size_t equals = text.find('=');
  const std::string key = Trimmed(std::string_view(text).substr(0, equals));
  if (equals == std::string::npos || key.empty()) {
    return layer.Error({}, "expected key=value, such as batch.size=256");
  }
  MILLRACE_ASSIGN_OR_RETURN(YamlPtr value,
                            ReadYaml(std::string_view(text).substr(equals + 1), layer.name));
  MILLRACE_RETURN_IF_ERROR(ApplyEntry(layer, {key, {}, std::move(value)}, state));
  return EndLayer(state);
}

Status PipelineParser::EndLayer(State& state) {
  MILLRACE_RETURN_IF_ERROR(state.tensors.EndLayer());
  for (Branch& branch : state.branches) MILLRACE_RETURN_IF_ERROR(branch.tensors.EndLayer());
  return OkStatus();
}

Status PipelineParser::UnknownKey(const TextLayer& layer, const YamlEntry& entry) const {
  if (entry.key == "millrace" || entry.key == "variants") {
    return layer.Error(entry.mark,
                       fmt::format("{} can only be set at the top of the file", entry.key));
  }
  std::vector<std::string> known = {"dataset"};
  for (const StageType& stage : table_.stages()) known.push_back(stage.name);
  for (std::string& key : TensorsText::Keys()) known.push_back(std::move(key));
  known.emplace_back("branches");
  for (std::string& key : MixText::Keys()) known.push_back(std::move(key));
  if (layer.is_file) known.push_back("variants");
  return layer.Error(entry.mark, fmt::format("unknown key '{}'{}; expected one of {}", entry.key,
                                             Suggestion(SplitKey(entry.key).first, known),
                                             fmt::join(known, ", ")));
}

Status PipelineParser::ApplyEntry(TextLayer& layer, const YamlEntry& entry, State& state) const {
  const auto [key, rest] = SplitKey(entry.key);
  if (key == "branches") {
    return rest.empty() ? ApplyBranches(layer, entry, state)
                        : ApplyBranch(layer, rest, entry, state);
  }
  if (MixText::Owns(entry.key)) return state.mix.Apply(layer, entry);
  return ApplyToChain(layer, entry, state);
}

Status PipelineParser::ApplyToChain(TextLayer& layer, const YamlEntry& entry, Chain& state) const {
  const auto [stage_name, parameter_name] = SplitKey(entry.key);
  if (IsReserved(stage_name, parameter_name)) {
    return layer.Error(entry.mark, fmt::format("{} is not yet supported", entry.key));
  }
  if (entry.key == "dataset") {
    MILLRACE_RETURN_IF_ERROR(layer.Claim(entry.key, entry.mark));
    if (entry.value->kind != YamlNode::Kind::kScalar || entry.value->scalar.empty()) {
      return layer.Error(entry.value->mark, fmt::format("dataset: expected a dataset id, got {}",
                                                        entry.value->Describe()));
    }
    if (!IsDatasetId(entry.value->scalar)) {
      return layer.Error(entry.value->mark, fmt::format("dataset: expected {}, got {}",
                                                        kDatasetIdRule, entry.value->Describe()));
    }
    state.dataset = entry.value->scalar;
    state.dataset_origin = layer.At(entry.mark);
    return OkStatus();
  }
  if (TensorsText::Owns(entry.key)) return state.tensors.Apply(layer, entry);
  const StageType* stage = table_.Find(stage_name);
  if (stage == nullptr) return UnknownKey(layer, entry);
  if (stage_name != entry.key) {
    return ApplyParameter(layer, *stage, parameter_name, entry, state);
  }
  return ApplyStage(layer, *stage, entry, state);
}

Status PipelineParser::ApplyStage(TextLayer& layer, const StageType& stage, const YamlEntry& entry,
                                  Chain& state) const {
  if (stage.scalar && entry.value->kind == YamlNode::Kind::kMap) {
    return ApplyChoice(layer, stage, entry, state);
  }
  if (stage.scalar) {
    return ApplyParameter(layer, stage, stage.parameters.front().name, entry, state);
  }
  if (entry.value->kind == YamlNode::Kind::kNull) {
    // A user who writes `shuffle:` and nothing after it surely does not mean "no shuffle".
    if (entry.value->scalar.empty()) {
      return layer.Error(
          entry.mark,
          fmt::format("{} has no value; expected a map with the keys {}, {{}} for their "
                      "defaults, or null for no such stage",
                      stage.name, fmt::join(KeysOf(stage), ", ")));
    }
    MILLRACE_RETURN_IF_ERROR(layer.Claim(stage.name, entry.mark));
    state.stages[stage.name] = {false, layer.At(entry.mark), {}};
    return OkStatus();
  }
  if (entry.value->kind != YamlNode::Kind::kMap) {
    return layer.Error(entry.value->mark,
                       fmt::format("{}: expected a map with the keys {}, got {}", stage.name,
                                   fmt::join(KeysOf(stage), ", "), entry.value->Describe()));
  }
  state.stages[stage.name].present = true;
  state.stages[stage.name].origin = layer.At(entry.mark);
  for (const YamlEntry& parameter : entry.value->entries) {
    MILLRACE_RETURN_IF_ERROR(ApplyParameter(layer, stage, parameter.key, parameter, state));
  }
  return OkStatus();
}

Status PipelineParser::ApplyParameter(TextLayer& layer, const StageType& stage,
                                      std::string_view name, const YamlEntry& entry,
                                      Chain& state) const {
  if (IsReserved(stage.name, name)) {
    return layer.Error(entry.mark, fmt::format("{}.{} is not yet supported", stage.name, name));
  }
  if (IsGroup(stage, name)) return ApplyGroup(layer, stage, std::string(name), entry, state);
  const Parameter* parameter = stage.Find(name);
  if (const Parameter* const tree = parameter == nullptr ? TreeAbove(stage, name) : nullptr) {
    return ApplyInTree(layer, stage, *tree, std::string(name.substr(tree->name.size() + 1)), entry,
                       state);
  }
  const bool named = stage.scalar && name == stage.parameters.front().name;
  if (parameter == nullptr || (named && entry.key != stage.name)) {
    if (stage.scalar) return UnknownKey(layer, entry);
    return UnknownParameter(layer, stage, name, entry);
  }
  const std::string key = CanonicalKey(stage, *parameter);
  MILLRACE_RETURN_IF_ERROR(layer.Claim(key, entry.mark));
  return SetParameter(layer, stage, *parameter, entry, state);
}

Status PipelineParser::ApplyInTree(TextLayer& layer, const StageType& stage, const Parameter& tree,
                                   const std::string& path, const YamlEntry& entry,
                                   Chain& state) const {
  const std::string key = CanonicalKey(stage, tree);
  MILLRACE_RETURN_IF_ERROR(layer.Claim(fmt::format("{}.{}", key, path), entry.mark));
  YamlPtr whole;
  std::map<std::string, Origin> origins;
  const auto& written = state.stages[stage.name].params;
  if (const auto found = written.find(tree.name); found != written.end()) {
    MILLRACE_ASSIGN_OR_RETURN(whole, ReadYaml(FormatParamValue(tree, found->second.value), key));
    origins = found->second.below;
  } else {
    auto empty = std::make_shared<YamlNode>();
    empty->kind = YamlNode::Kind::kMap;
    whole = std::move(empty);
  }
  auto changed = WithValueAt(*whole, key, path, entry.value, entry.mark);
  if (!changed.ok()) return layer.Error(entry.mark, changed.status().message());
  MILLRACE_RETURN_IF_ERROR(
      SetParameter(layer, stage, tree,
                   {key, entry.mark, std::make_shared<YamlNode>(*std::move(changed))}, state));
  // What was written before stays where it was written.
  for (auto& [below, origin] : state.stages[stage.name].params[tree.name].below) {
    const bool is_new = below == path || below.starts_with(path + ".");
    const auto before = origins.find(below);
    if (!is_new && before != origins.end()) origin = before->second;
  }
  return OkStatus();
}

Status PipelineParser::UnknownParameter(const TextLayer& layer, const StageType& stage,
                                        std::string_view name, const YamlEntry& entry) {
  const auto [group, word] = SplitKey(std::string(name));
  const bool grouped = IsGroup(stage, group);
  const std::vector<std::string> known = grouped ? KeysOf(stage, group) : KeysOf(stage);
  return layer.Error(entry.mark,
                     fmt::format("unknown key '{}.{}'{}; expected one of {}", stage.name, name,
                                 Suggestion(grouped ? word : name, known), fmt::join(known, ", ")));
}

Status PipelineParser::ApplyGroup(TextLayer& layer, const StageType& stage,
                                  const std::string& group, const YamlEntry& entry,
                                  Chain& state) const {
  const std::string key = fmt::format("{}.{}", stage.name, group);
  const YamlNode& value = *entry.value;
  StageState& stage_state = state.stages[stage.name];
  if (value.kind == YamlNode::Kind::kNull && !value.scalar.empty()) {
    MILLRACE_RETURN_IF_ERROR(layer.Claim(key, entry.mark));
    std::erase_if(stage_state.params,
                  [&](const auto& written) { return written.first.starts_with(group + "."); });
    return OkStatus();
  }
  if (value.kind != YamlNode::Kind::kMap) {
    return layer.Error(value.mark,
                       fmt::format("{}: expected a map with the keys {}, or null; got {}", key,
                                   fmt::join(KeysOf(stage, group), ", "), value.Describe()));
  }
  for (const YamlEntry& parameter : value.entries) {
    MILLRACE_RETURN_IF_ERROR(
        ApplyParameter(layer, stage, fmt::format("{}.{}", group, parameter.key), parameter, state));
  }
  return OkStatus();
}

Status PipelineParser::ApplyChoice(TextLayer& layer, const StageType& stage, const YamlEntry& entry,
                                   Chain& state) const {
  const Parameter& first = stage.parameters.front();
  const auto& names = first.allowed;
  const YamlEntry* chosen = nullptr;
  std::vector<const YamlEntry*> others;
  for (const YamlEntry& one : entry.value->entries) {
    const bool is_name = std::find(names.begin(), names.end(), one.key) != names.end();
    if (!is_name && one.key != first.name && stage.Find(one.key) != nullptr) {
      others.push_back(&one);
    } else if (chosen == nullptr) {
      chosen = &one;
    } else {
      return layer.Error(one.mark, fmt::format("{}: expected a name, or a map with one name, got "
                                               "{} beside {}",
                                               stage.name, one.key, chosen->key));
    }
  }
  if (chosen == nullptr) {
    return layer.Error(entry.value->mark,
                       fmt::format("{}: expected a name, or a map with one name, got a map without "
                                   "one; a name is {}",
                                   stage.name, Expected(first)));
  }
  YamlNode name;
  name.kind = YamlNode::Kind::kScalar;
  name.mark = chosen->mark;
  name.scalar = chosen->key;
  MILLRACE_RETURN_IF_ERROR(
      ApplyParameter(layer, stage, first.name,
                     {stage.name, entry.mark, std::make_shared<YamlNode>(std::move(name))}, state));
  for (const YamlEntry* other : others) {
    MILLRACE_RETURN_IF_ERROR(
        SetParameter(layer, stage, *stage.Find(other->key), *other, state));
  }
  const Parameter* argument = stage.Find(chosen->key);
  const bool takes_any = argument != nullptr && argument->types.front() == ParamType::kTree;
  const bool nothing =
      chosen->value->kind == YamlNode::Kind::kMap && chosen->value->entries.empty();
  if (nothing && !takes_any) return OkStatus();
  if (argument == nullptr || argument == &first) {
    return layer.Error(chosen->value->mark, fmt::format("{}.{}: expected {{}}, got {}", stage.name,
                                                        chosen->key, chosen->value->Describe()));
  }
  return SetParameter(layer, stage, *argument, *chosen, state);
}

Status PipelineParser::SetParameter(TextLayer& layer, const StageType& stage,
                                    const Parameter& parameter, const YamlEntry& entry,
                                    Chain& state) const {
  const std::string key = CanonicalKey(stage, parameter);
  StageState& stage_state = state.stages[stage.name];
  const bool default_is_null = std::holds_alternative<std::monostate>(parameter.default_value);
  if (entry.value->kind == YamlNode::Kind::kNull && (!layer.is_file || default_is_null)) {
    stage_state.params.erase(parameter.name);
    return OkStatus();
  }
  ReadValue read = ReadParameter(parameter, *entry.value);
  if (read.error) {
    return layer.Error(read.error->mark, fmt::format("{}: {}", key, read.error->message));
  }
  if (parameter.check) {
    const Status status = parameter.check(read.value);
    if (!status.ok()) {
      // ".a.b: …" blames what stands below the value.
      const std::string& message = status.message();
      const bool blames = message.starts_with('.') && message.find(": ") != std::string::npos;
      const auto mark =
          read.below.find(blames ? message.substr(1, message.find(": ") - 1) : std::string());
      return layer.Error(mark == read.below.end() ? entry.value->mark : mark->second,
                         fmt::format("{}{}{}", key, blames ? "" : ": ", message));
    }
  }
  const Origin origin = layer.At(entry.value->mark);
  std::map<std::string, Origin> below;
  for (const auto& [path, mark] : read.below) below.emplace(path, layer.At(mark));
  stage_state.present = true;
  if (stage_state.origin.empty() || !layer.is_file) stage_state.origin = origin;
  stage_state.params[parameter.name] = {std::move(read.value), origin, std::move(below)};
  return OkStatus();
}

}  // namespace millrace
