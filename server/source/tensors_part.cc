#include "server/source/tensors_part.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "common/base/parse_number.h"
#include "common/expr/expression.h"
#include "common/operations/pad.h"

namespace millrace {
namespace {

/// Takes what stands before the next ": " off a text; empty if there is none.
std::string_view TakeWord(std::string_view& text) {
  const std::size_t end = text.find(": ");
  if (end == std::string_view::npos) return {};
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end + 2);
  return word;
}

/// The column at which the text of an expression names a tensor.
std::optional<std::size_t> ColumnOf(const TensorDefinition& definition, std::string_view name) {
  if (definition.operation != "expr" || !definition.params.is_set("expr")) return std::nullopt;
  ExpressionConstants constants;
  for (const auto& [constant, number] : definition.params.GetNamedNumbers("with")) {
    constants.emplace(constant, number);
  }
  const auto names = Expression::Names(definition.params.GetText("expr"), constants);
  if (!names.ok()) return std::nullopt;
  const auto found = std::find_if(names->begin(), names->end(),
                                  [&](const ExpressionName& one) { return one.name == name; });
  return found == names->end() ? std::nullopt : std::optional(found->column);
}

/// What is wrong with an input, as the matter of the operation, and of the input's place in an
/// expression.
std::string AboutInput(const TensorDefinition& definition, std::string_view input,
                       std::string_view what) {
  const std::optional<std::size_t> column = ColumnOf(definition, input);
  if (!column) return fmt::format("{}: {}", definition.operation, what);
  return fmt::format("{}: column {}: {}", definition.operation, *column, what);
}

/// An error about an input that does not exist, with its place.
std::string AtInput(const TensorsPart& part, const std::string& name, std::string_view rest) {
  constexpr std::string_view kMissing = "there is no tensor '";
  const auto definition =
      std::find_if(part.definitions.begin(), part.definitions.end(),
                   [&](const TensorDefinition& one) { return one.name == name; });
  if (!rest.starts_with(kMissing) || definition == part.definitions.end()) {
    return std::string(rest);
  }
  return AboutInput(*definition, rest.substr(kMissing.size(), rest.size() - kMissing.size() - 1),
                    rest);
}

bool Names(const std::vector<std::string>& names, std::string_view tensor) {
  return std::find(names.begin(), names.end(), tensor) != names.end();
}

/// The place of the error: that of the text, moved on to the column that the message names, or else
/// that of the key.
std::string PlaceOf(const TensorsPart& part, const std::string& key, std::string_view message) {
  constexpr std::string_view kColumn = "column ";
  const auto text = part.origins.find(key + "@text");
  if (text == part.origins.end() || !message.starts_with(kColumn)) return part.origins.at(key);
  message.remove_prefix(kColumn.size());
  const auto column = ParseNumber<std::size_t>(message.substr(0, message.find(':')));
  const std::size_t colon = text->second.rfind(':');
  const auto begin = ParseNumber<std::size_t>(std::string_view(text->second).substr(colon + 1));
  if (!column.ok() || !begin.ok()) return part.origins.at(key);
  return fmt::format("{}:{}", text->second.substr(0, colon), *begin + *column - 1);
}

}  // namespace

const std::vector<Parameter>& PadParameters(std::string_view name) {
  return name == GraphPad::kKey ? GraphPad::Parameters() : Pad::Parameters();
}

std::map<std::string, Params> TensorsPart::all_pads() const {
  std::map<std::string, Params> all = pads;
  if (graph_pad) all.emplace(GraphPad::kKey, graph_pad->params());
  return all;
}

bool TensorsPart::Reads(std::string_view tensor) const {
  bool reads = outputs && Names(*outputs, tensor);
  for (const TensorDefinition& definition : definitions) {
    if (definition.name == tensor) return false;
    reads = reads || Names(definition.inputs, tensor);
  }
  return reads;
}

Status AtOrigin(const TensorsPart& part, const Status& status) {
  if (status.ok()) return status;
  std::string_view message = status.message();
  const std::string name(TakeWord(message));
  if (name == "output") {
    const auto origin = part.origins.find(name);
    return origin == part.origins.end() ? status : status.WithContext(origin->second);
  }
  const std::string about = AtInput(part, name, message);
  std::string_view rest = about;
  const std::string parameter(TakeWord(rest));
  for (const std::string& whole : {"tensors." + name, "pad." + name}) {
    const std::string key = whole + "." + parameter;
    if (!parameter.empty() && part.origins.contains(key)) {
      return {status.code(), fmt::format("{}: {}: {}", PlaceOf(part, key, rest), key, rest)};
    }
  }
  for (const std::string& whole : {"tensors." + name, "pad." + name}) {
    const auto origin = part.origins.find(whole);
    if (origin == part.origins.end()) continue;
    return {status.code(), fmt::format("{}: {}: {}", origin->second, whole, about)};
  }
  return status;
}

Status AtReader(const TensorsPart& part, std::string_view tensor, std::string_view what) {
  if (part.outputs && Names(*part.outputs, tensor)) {
    return AtOrigin(part, InvalidArgument(fmt::format("output: {}", what)));
  }
  for (const TensorDefinition& definition : part.definitions) {
    if (!Names(definition.inputs, tensor)) continue;
    return AtOrigin(part, InvalidArgument(fmt::format("{}: {}", definition.name,
                                                      AboutInput(definition, tensor, what))));
  }
  return InvalidArgument(std::string(what));
}

}  // namespace millrace
