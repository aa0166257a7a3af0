#include "server/plan/text/tensors_text.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/operations/graph_pad.h"
#include "common/operations/python_function.h"
#include "common/tensor/tensor_word.h"
#include "server/plan/text/tensor_keys.h"
#include "server/yaml/read_parameter.h"

namespace millrace {
namespace {

constexpr std::string_view kDefinitionForm =
    "a map with an operation and its parameters, such as {cast: d, dtype: float32}";

bool IsNull(const YamlEntry& entry) { return entry.value->kind == YamlNode::Kind::kNull; }
bool IsMap(const YamlEntry& entry) { return entry.value->kind == YamlNode::Kind::kMap; }

/// A key without a value is a mistake, and no way to remove anything.
Status CheckWritten(const TextLayer& layer, const YamlEntry& entry, const std::string& key,
                    std::string_view expected) {
  if (!IsNull(entry) || !entry.value->scalar.empty()) return OkStatus();
  return layer.Error(entry.mark,
                     fmt::format("{} has no value; expected {}, or null for none", key, expected));
}

const Parameter* FindPadParameter(std::string_view name, std::string_view key) {
  return FindParameter(PadParameters(name), key);
}

/// What a key of `pad` is about, and its parameter; that is empty if the key has none.
std::pair<std::string, std::string> SplitPadKey(const std::string& path) {
  if (SplitKey(path).first == GraphPad::kKey) return SplitKey(path);
  // The names of tensors may have dots.
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos || dot == 0) return {path, ""};
  const std::string key = path.substr(dot + 1);
  if (FindPadParameter("", key) == nullptr) return {path, ""};
  return {path.substr(0, dot), key};
}

Status CheckPadName(const TextLayer& layer, YamlMark mark, const std::string& name) {
  if (!name.empty() && name.size() <= kMaxTensorName) return OkStatus();
  return layer.Error(mark,
                     fmt::format("pad: expected the name of a tensor, got '{}'", ShownName(name)));
}

}  // namespace

bool TensorsText::Owns(std::string_view key) {
  const std::string_view first = key.substr(0, key.find('.'));
  return first == "tensors" || first == "output" || first == "pad";
}

TensorsText::Written& TensorsText::Edit() {
  if (written_.use_count() > 1) written_ = std::make_shared<Written>(*written_);
  return *written_;
}

WrittenDefinition& TensorsText::Edit(Definitions& definitions, const std::string& name,
                                     const LayerName& layer, YamlMark mark) {
  std::shared_ptr<WrittenDefinition>& definition = definitions[name];
  if (definition == nullptr) {
    definition = std::make_shared<WrittenDefinition>(WrittenDefinition{layer, mark});
  } else if (definition.use_count() > 1) {
    definition = std::make_shared<WrittenDefinition>(*definition);
  }
  return *definition;
}

Status TensorsText::Apply(TextLayer& layer, const YamlEntry& entry) {
  const auto [key, rest] = SplitKey(entry.key);
  const bool whole = key == entry.key;
  if (key == "tensors") {
    return whole ? ApplyTensors(layer, entry) : ApplyDefinition(layer, rest, entry);
  }
  if (key == "pad") return whole ? ApplyPads(layer, entry) : ApplyPad(layer, rest, entry);
  if (whole) return ApplyOutput(layer, entry);
  return layer.Error(entry.mark,
                     fmt::format("unknown key '{}'; output has no keys", ShownName(entry.key)));
}

Status TensorsText::ApplyTensors(TextLayer& layer, const YamlEntry& entry) {
  constexpr std::string_view kExpected =
      "a map from names to definitions such as {cast: d, dtype: float32}";
  MILLRACE_RETURN_IF_ERROR(CheckWritten(layer, entry, "tensors", kExpected));
  if (IsNull(entry)) {
    MILLRACE_RETURN_IF_ERROR(layer.Claim("tensors", entry.mark));
    Edit().definitions.clear();
    return OkStatus();
  }
  if (!IsMap(entry)) {
    return layer.Error(entry.value->mark, fmt::format("tensors: expected {}, got {}", kExpected,
                                                      entry.value->Describe()));
  }
  for (const YamlEntry& definition : entry.value->entries) {
    MILLRACE_RETURN_IF_ERROR(ApplyDefinition(layer, definition.key, definition));
  }
  return OkStatus();
}

Status TensorsText::ApplyDefinition(TextLayer& layer, const std::string& path,
                                    const YamlEntry& entry) {
  const auto [name, key] = SplitKey(path);
  if (!IsTensorWord(name)) {
    return layer.Error(entry.mark,
                       fmt::format("tensors: a name is one word of at most {} letters, digits and "
                                   "_ that begins with no digit, got '{}'",
                                   kMaxTensorName, ShownName(name)));
  }
  if (name != path) return ApplyKey(layer, name, key, entry);
  const std::string whole = "tensors." + name;
  MILLRACE_RETURN_IF_ERROR(CheckWritten(layer, entry, whole, kDefinitionForm));
  if (IsNull(entry)) {
    MILLRACE_RETURN_IF_ERROR(layer.Claim(whole, entry.mark));
    Edit().definitions.erase(name);
    return OkStatus();
  }
  if (!IsMap(entry)) {
    return layer.Error(entry.value->mark, fmt::format("{}: expected {}, got {}", whole,
                                                      kDefinitionForm, entry.value->Describe()));
  }
  WrittenDefinition& definition = Edit(Edit().definitions, name, layer, entry.mark);
  definition.layer = layer;
  definition.mark = entry.mark;
  changed_.insert(name);
  for (const YamlEntry& one : entry.value->entries) {
    MILLRACE_RETURN_IF_ERROR(ApplyKey(layer, name, one.key, one));
  }
  return OkStatus();
}

Status TensorsText::ApplyKey(TextLayer& layer, const std::string& name, const std::string& key,
                             const YamlEntry& entry) {
  const std::string whole = fmt::format("tensors.{}.{}", name, key);
  MILLRACE_RETURN_IF_ERROR(layer.Claim(whole, entry.mark));
  WrittenDefinition& definition = Edit(Edit().definitions, name, layer, entry.mark);
  if (written_->definitions.size() > kMaxTensors) {
    return layer.Error(entry.mark,
                       fmt::format("tensors: expected at most {} definitions", kMaxTensors));
  }
  changed_.insert(name);
  if (IsNull(entry) && !layer.is_file) {
    definition.keys.erase(key);
    return OkStatus();
  }
  if (operations_->FindWritten(key) != nullptr && !definition.keys.contains(key)) {
    // Another operation: what earlier layers have set belongs to the one that it replaces.
    std::erase_if(definition.keys, [&](const auto& known) {
      return !layer.set.contains(fmt::format("tensors.{}.{}", name, known.first));
    });
  }
  definition.keys[key] = {layer, entry.mark, entry.value};
  return OkStatus();
}

Status TensorsText::ApplyOutput(TextLayer& layer, const YamlEntry& entry) {
  constexpr std::string_view kExpected = "a list of names such as [board, score]";
  MILLRACE_RETURN_IF_ERROR(layer.Claim("output", entry.mark));
  MILLRACE_RETURN_IF_ERROR(CheckWritten(layer, entry, "output", kExpected));
  if (IsNull(entry)) {
    Edit().output.reset();
    return OkStatus();
  }
  const WrittenValue written = {layer, entry.mark, entry.value};
  if (entry.value->kind != YamlNode::Kind::kList || entry.value->items.empty()) {
    return written.Error(
        fmt::format("output: expected {}, got {}", kExpected,
                    entry.value->kind == YamlNode::Kind::kList ? "none" : entry.value->Describe()));
  }
  std::set<std::string> seen;
  for (const YamlPtr& item : entry.value->items) {
    if (!IsTensorName(*item)) {
      return layer.Error(item->mark, fmt::format("output: expected the name of a tensor, got {}",
                                                 item->Describe()));
    }
    if (!seen.insert(DottedName(item->scalar)).second) {
      return layer.Error(item->mark, fmt::format("output: names '{}' twice", item->scalar));
    }
  }
  Edit().output = written;
  return OkStatus();
}

Status TensorsText::ApplyPads(TextLayer& layer, const YamlEntry& entry) {
  constexpr std::string_view kExpected =
      "a map from names to parameters such as {data: {multiple: 8}}";
  MILLRACE_RETURN_IF_ERROR(CheckWritten(layer, entry, "pad", kExpected));
  if (IsNull(entry)) {
    MILLRACE_RETURN_IF_ERROR(layer.Claim("pad", entry.mark));
    Edit().pads.clear();
    return OkStatus();
  }
  if (!IsMap(entry)) {
    return layer.Error(entry.value->mark,
                       fmt::format("pad: expected {}, got {}", kExpected, entry.value->Describe()));
  }
  for (const YamlEntry& one : entry.value->entries) {
    MILLRACE_RETURN_IF_ERROR(ApplyPad(layer, one.key, one));
  }
  return OkStatus();
}

Status TensorsText::ApplyPad(TextLayer& layer, const std::string& path, const YamlEntry& entry) {
  if (const auto [name, key] = SplitPadKey(path); !key.empty()) {
    return ApplyPadKey(layer, name, key, entry);
  }
  const std::string whole = "pad." + ShownName(path);
  const std::string_view kExpected = path == GraphPad::kKey
                                         ? "a map such as {nodes: 4096, edges: 16384, graphs: 65}"
                                         : "a map such as {value: 0, multiple: 8}";
  MILLRACE_RETURN_IF_ERROR(CheckPadName(layer, entry.mark, path));
  MILLRACE_RETURN_IF_ERROR(CheckWritten(layer, entry, whole, kExpected));
  if (IsNull(entry)) {
    MILLRACE_RETURN_IF_ERROR(layer.Claim("pad." + DottedName(path), entry.mark));
    Edit().pads.erase(DottedName(path));
    return OkStatus();
  }
  if (!IsMap(entry)) {
    return layer.Error(entry.value->mark, fmt::format("{}: expected {}, got {}", whole, kExpected,
                                                      entry.value->Describe()));
  }
  WrittenDefinition& pad = Edit(Edit().pads, DottedName(path), layer, entry.mark);
  pad.layer = layer;
  pad.mark = entry.mark;
  for (const YamlEntry& one : entry.value->entries) {
    MILLRACE_RETURN_IF_ERROR(ApplyPadKey(layer, path, one.key, one));
  }
  return OkStatus();
}

Status TensorsText::ApplyPadKey(TextLayer& layer, const std::string& path, const std::string& key,
                                const YamlEntry& entry) {
  MILLRACE_RETURN_IF_ERROR(CheckPadName(layer, entry.mark, path));
  const std::string name = DottedName(path);
  const Parameter* const parameter = FindPadParameter(name, key);
  if (parameter == nullptr) {
    std::vector<std::string> known;
    for (const Parameter& one : PadParameters(name)) known.push_back(one.name);
    return layer.Error(entry.mark, UnknownParameter("pad." + name, key, known));
  }
  const std::string whole = fmt::format("pad.{}.{}", name, key);
  MILLRACE_RETURN_IF_ERROR(layer.Claim(whole, entry.mark));
  WrittenDefinition& pad = Edit(Edit().pads, name, layer, entry.mark);
  if (IsNull(entry) && !layer.is_file) {
    pad.keys.erase(key);
    return OkStatus();
  }
  if (const auto read = ReadParameter(*parameter, *entry.value); read.error) {
    return layer.Error(read.error->mark, fmt::format("{}: {}", whole, read.error->message));
  }
  pad.keys[key] = {layer, entry.mark, entry.value};
  return OkStatus();
}

Status TensorsText::EndLayer() {
  for (const std::string& name : std::exchange(changed_, {})) {
    const auto definition = written_->definitions.find(name);
    if (definition == written_->definitions.end()) continue;
    MILLRACE_RETURN_IF_ERROR(
        ReadDefinition(name, *definition->second, *operations_, yaml_).status());
  }
  return OkStatus();
}

Result<TensorsPart> TensorsText::Finish() const {
  TensorsPart part;
  part.operations = operations_;
  const std::vector<std::string_view> lines = LinesOf(yaml_);
  for (const auto& [name, definition_written] : written_->definitions) {
    const WrittenDefinition& written = *definition_written;
    MILLRACE_ASSIGN_OR_RETURN(TensorDefinition definition,
                              ReadDefinition(name, written, *operations_, yaml_));
    MILLRACE_RETURN_IF_ERROR(CheckRequired(definition, written, *operations_));
    AddOrigins(definition, written, lines, part.origins);
    part.definitions.push_back(std::move(definition));
  }
  MILLRACE_RETURN_IF_ERROR(CheckCycles(part));
  MILLRACE_RETURN_IF_ERROR(FinishOutput(part));
  MILLRACE_RETURN_IF_ERROR(FinishPads(part));
  return part;
}

Status TensorsText::FinishOutput(TensorsPart& part) const {
  if (!written_->output) return OkStatus();
  part.outputs.emplace();
  for (const YamlPtr& item : written_->output->value->items) {
    part.outputs->push_back(DottedName(item->scalar));
  }
  std::sort(part.outputs->begin(), part.outputs->end());
  part.origins["output"] = written_->output->place();
  return OkStatus();
}

Status TensorsText::FinishPads(TensorsPart& part) const {
  for (const auto& [name, pad] : written_->pads) {
    const WrittenDefinition& written = *pad;
    if (name == GraphPad::kKey) {
      MILLRACE_RETURN_IF_ERROR(FinishGraphPad(written, part));
      continue;
    }
    // `pad.pack` may stand for the outputs of packed rows.
    if (name != "pack" && part.outputs &&
        !std::binary_search(part.outputs->begin(), part.outputs->end(), name)) {
      return written.Error(fmt::format("pad.{}: expected the name of an output", name));
    }
    std::map<std::string, ParamValue> values;
    part.origins["pad." + name] = written.place();
    for (const auto& [key, value] : written.keys) {
      const Parameter& parameter = *FindPadParameter(name, key);
      ParamValue read = ReadParameter(parameter, *value.value).value;
      if (parameter.default_value != read) values.emplace(key, std::move(read));
      part.origins[fmt::format("pad.{}.{}", name, key)] = value.place();
    }
    part.pads.emplace(name, Params(std::move(values)));
  }
  return OkStatus();
}

Status TensorsText::FinishGraphPad(const WrittenDefinition& pad, TensorsPart& part) const {
  std::map<std::string, ParamValue> values;
  const std::string whole = fmt::format("pad.{}", GraphPad::kKey);
  part.origins[whole] = pad.place();
  for (const Parameter& parameter : GraphPad::Parameters()) {
    const auto value = pad.keys.find(parameter.name);
    if (value == pad.keys.end()) {
      return pad.Error(fmt::format("the key {}.{} is missing; expected {}", whole, parameter.name,
                                   Expected(parameter)));
    }
    values[parameter.name] = ReadParameter(parameter, *value->second.value).value;
    part.origins[fmt::format("{}.{}", whole, parameter.name)] = value->second.place();
  }
  MILLRACE_ASSIGN_OR_RETURN(part.graph_pad, GraphPad::Bind(Params(std::move(values))));
  for (const auto& [name, definition] : written_->definitions) {
    if (name == GraphPad::kKey) {
      return definition->Error(fmt::format(
          "tensors.{0}: pad.{0} pads whole graphs, and no tensor; choose another name", name));
    }
    if (GraphPad::IsMask(name)) {
      return definition->Error(fmt::format(
          "tensors.{}: {} delivers a tensor of this name; choose another one", name, whole));
    }
  }
  return OkStatus();
}

Status TensorsText::CheckCycles(const TensorsPart& part) const {
  const Definitions& definitions = written_->definitions;
  const auto find = [&](std::string_view name) -> const TensorDefinition* {
    // They are in the order of their names.
    const auto found = std::lower_bound(
        part.definitions.begin(), part.definitions.end(), name,
        [](const TensorDefinition& one, std::string_view wanted) { return one.name < wanted; });
    return found == part.definitions.end() || found->name != name ? nullptr : &*found;
  };
  std::map<std::string, std::vector<std::string>> needs;
  for (const TensorDefinition& definition : part.definitions) {
    std::vector<std::string>& inputs = needs[definition.name];
    for (const std::string& input : definition.inputs) {
      if (const TensorDefinition* const read = DefinitionOf(input, find)) {
        inputs.push_back(read->name);
      }
    }
  }
  std::set<std::string> done;
  std::vector<std::string> path;
  // At most as deep as there are definitions.
  const std::function<Status(const std::string&)> visit = [&](const std::string& name) -> Status {
    if (done.contains(name)) return OkStatus();
    const auto begin = std::find(path.begin(), path.end(), name);
    if (begin != path.end()) {
      constexpr std::ptrdiff_t kShown = 12;
      const auto end = path.end() - begin > kShown ? begin + kShown : path.end();
      return definitions.at(name)->Error(
          fmt::format("tensors.{}: is computed from itself: {} <- {}{}", name,
                      fmt::join(begin, end, " <- "), end == path.end() ? "" : "… <- ", name));
    }
    path.push_back(name);
    for (const std::string& input : needs.at(name)) MILLRACE_RETURN_IF_ERROR(visit(input));
    path.pop_back();
    done.insert(name);
    return OkStatus();
  };
  for (const auto& [name, inputs] : needs) MILLRACE_RETURN_IF_ERROR(visit(name));
  return OkStatus();
}

}  // namespace millrace
