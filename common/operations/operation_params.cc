#include "common/operations/operation_params.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

#include <fmt/core.h>

namespace millrace {
namespace {

const char* TypeName(OperationValueType type) {
  switch (type) {
    case OperationValueType::kBool:
      return "true or false";
    case OperationValueType::kInt:
      return "an integer";
    case OperationValueType::kNumber:
      return "a number";
    case OperationValueType::kText:
      return "a text";
    case OperationValueType::kInts:
      return "a list of integers";
    case OperationValueType::kNumbers:
      return "a list of numbers";
    case OperationValueType::kNamedNumbers:
      return "names and their numbers";
    case OperationValueType::kTexts:
      return "a list of texts";
    case OperationValueType::kNamedTexts:
      return "names and their texts";
    case OperationValueType::kTree:
      return "names and their values";
  }
  return "nothing";
}

bool IsFinite(const ParamNumber& number) {
  const auto* real = std::get_if<double>(&number);
  return real == nullptr || std::isfinite(*real);
}

bool IsWithin(const OperationParameter& parameter, std::int64_t value) {
  return value >= parameter.min.value_or(value) && value <= parameter.max.value_or(value);
}

/// Whether the parameter accepts the value as one of this type.
bool Accepts(const OperationParameter& parameter, OperationValueType type,
             const OperationValue& value) {
  const auto counts = [&](std::size_t count) {
    return count > 0 && count == parameter.count.value_or(count);
  };
  const auto* const integer = std::get_if<std::int64_t>(&value);
  const auto* const integers = std::get_if<std::vector<std::int64_t>>(&value);
  switch (type) {
    case OperationValueType::kBool:
      return std::holds_alternative<bool>(value);
    case OperationValueType::kInt:
      return integer != nullptr && IsWithin(parameter, *integer);
    case OperationValueType::kNumber:
      return integer != nullptr ||
             (std::holds_alternative<double>(value) && std::isfinite(std::get<double>(value)));
    case OperationValueType::kText: {
      const auto* const text = std::get_if<std::string>(&value);
      return text != nullptr && !text->empty() &&
             (parameter.allowed.empty() ||
              std::find(parameter.allowed.begin(), parameter.allowed.end(), *text) !=
                  parameter.allowed.end());
    }
    case OperationValueType::kInts:
      return integers != nullptr &&
             (integers->empty() ? !parameter.count : counts(integers->size())) &&
             std::all_of(integers->begin(), integers->end(),
                         [&](std::int64_t one) { return IsWithin(parameter, one); });
    case OperationValueType::kNumbers: {
      if (integers != nullptr) return counts(integers->size());
      const auto* const numbers = std::get_if<std::vector<ParamNumber>>(&value);
      return numbers != nullptr && counts(numbers->size()) &&
             std::all_of(numbers->begin(), numbers->end(), IsFinite);
    }
    case OperationValueType::kNamedNumbers: {
      const auto* const named = std::get_if<std::map<std::string, ParamNumber>>(&value);
      return named != nullptr && std::all_of(named->begin(), named->end(), [](const auto& entry) {
               return IsFinite(entry.second);
             });
    }
    case OperationValueType::kTexts: {
      const auto* const texts = std::get_if<std::vector<std::string>>(&value);
      return texts != nullptr && counts(texts->size());
    }
    case OperationValueType::kNamedTexts: {
      const auto* const named = std::get_if<std::map<std::string, std::string>>(&value);
      return named != nullptr && !named->empty();
    }
    case OperationValueType::kTree:
      return std::holds_alternative<std::string>(value);
  }
  return false;
}

// Doubles are written by their bits, so that no two of them meet.
std::string KeyOf(const ParamNumber& number) {
  if (const auto* integer = std::get_if<std::int64_t>(&number)) return fmt::format("{}", *integer);
  return fmt::format("f{:x}", std::bit_cast<std::uint64_t>(std::get<double>(number)));
}

struct KeyOfValue {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return KeyOf(ParamNumber(value)); }
  std::string operator()(double value) const { return KeyOf(ParamNumber(value)); }
  std::string operator()(const std::string& value) const {
    return fmt::format("'{}:{}'", value.size(), value);
  }
  std::string operator()(const std::vector<std::int64_t>& value) const {
    std::string key = "[";
    for (const std::int64_t one : value) key += KeyOf(ParamNumber(one)) + ",";
    return key + "]";
  }
  std::string operator()(const std::vector<ParamNumber>& value) const {
    std::string key = "[";
    for (const ParamNumber& one : value) key += KeyOf(one) + ",";
    return key + "]";
  }
  std::string operator()(const std::map<std::string, ParamNumber>& value) const {
    std::string key = "{";
    for (const auto& [name, number] : value) key += name + ":" + KeyOf(number) + ",";
    return key + "}";
  }
  std::string operator()(const std::vector<std::string>& value) const {
    std::string key = "[";
    for (const std::string& one : value) key += (*this)(one) + ",";
    return key + "]";
  }
  std::string operator()(const std::map<std::string, std::string>& value) const {
    std::string key = "{";
    for (const auto& [name, text] : value) key += name + ":" + (*this)(text) + ",";
    return key + "}";
  }
};

}  // namespace

const OperationValue* OperationParams::Find(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  return found == values_.end() ? nullptr : &found->second;
}

bool OperationParams::GetBool(std::string_view name) const {
  assert(is_set(name));
  return std::get<bool>(*Find(name));
}

std::int64_t OperationParams::GetInt(std::string_view name) const {
  assert(is_set(name));
  return std::get<std::int64_t>(*Find(name));
}

bool OperationParams::IsInt(std::string_view name) const {
  const OperationValue* value = Find(name);
  return value != nullptr && std::holds_alternative<std::int64_t>(*value);
}

bool OperationParams::IsList(std::string_view name) const {
  const OperationValue* value = Find(name);
  return value != nullptr && (std::holds_alternative<std::vector<std::int64_t>>(*value) ||
                              std::holds_alternative<std::vector<ParamNumber>>(*value));
}

bool OperationParams::IsNamedTexts(std::string_view name) const {
  const OperationValue* value = Find(name);
  return value != nullptr && std::holds_alternative<std::map<std::string, std::string>>(*value);
}

const std::string& OperationParams::GetText(std::string_view name) const {
  assert(is_set(name));
  return std::get<std::string>(*Find(name));
}

const std::vector<std::int64_t>& OperationParams::GetInts(std::string_view name) const {
  assert(is_set(name));
  return std::get<std::vector<std::int64_t>>(*Find(name));
}

ParamNumber OperationParams::GetNumber(std::string_view name) const {
  return GetNumbers(name).front();
}

std::vector<ParamNumber> OperationParams::GetNumbers(std::string_view name) const {
  assert(is_set(name));
  const OperationValue& value = *Find(name);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return {ParamNumber(*integer)};
  if (const auto* real = std::get_if<double>(&value)) return {ParamNumber(*real)};
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    return {integers->begin(), integers->end()};
  }
  return std::get<std::vector<ParamNumber>>(value);
}

std::map<std::string, ParamNumber> OperationParams::GetNamedNumbers(std::string_view name) const {
  const OperationValue* value = Find(name);
  if (value == nullptr) return {};
  return std::get<std::map<std::string, ParamNumber>>(*value);
}

std::vector<std::string> OperationParams::GetTexts(std::string_view name) const {
  const OperationValue* value = Find(name);
  if (value == nullptr) return {};
  return std::get<std::vector<std::string>>(*value);
}

std::map<std::string, std::string> OperationParams::GetNamedTexts(std::string_view name) const {
  const OperationValue* value = Find(name);
  if (value == nullptr) return {};
  return std::get<std::map<std::string, std::string>>(*value);
}

Result<OperationParams> NormalParams(std::span<const OperationParameter> parameters,
                                     const OperationParams& given) {
  std::map<std::string, OperationValue> values = given.values();
  for (const auto& [name, value] : values) {
    const auto parameter = std::find_if(
        parameters.begin(), parameters.end(),
        [&, wanted = std::string_view(name)](const auto& p) { return p.name == wanted; });
    if (parameter == parameters.end()) {
      return InvalidArgument(name + ": the operation has no such parameter");
    }
    const bool accepted = std::any_of(parameter->types.begin(), parameter->types.end(),
                                      [&, &checked = value](OperationValueType type) {
                                        return Accepts(*parameter, type, checked);
                                      });
    if (!accepted) {
      return InvalidArgument(fmt::format("{}: expected {}", name, DescribeAccepted(*parameter)));
    }
  }
  for (const OperationParameter& parameter : parameters) {
    if (values.contains(parameter.name)) continue;
    if (parameter.required) {
      return InvalidArgument(
          fmt::format("{}: is missing; expected {}", parameter.name, DescribeAccepted(parameter)));
    }
    if (parameter.default_value) values.emplace(parameter.name, *parameter.default_value);
  }
  return OperationParams(std::move(values));
}

std::string DescribeAccepted(const OperationParameter& parameter) {
  std::string text;
  for (const OperationValueType type : parameter.types) {
    std::string one = TypeName(type);
    const bool integers = type == OperationValueType::kInt || type == OperationValueType::kInts;
    if (parameter.count && one.starts_with("a list of ")) {
      one = fmt::format("a list of {} {}", *parameter.count, one.substr(10));
    }
    if (type == OperationValueType::kText && !parameter.allowed.empty()) {
      one.clear();
      for (const std::string& word : parameter.allowed) one += (one.empty() ? "" : ", ") + word;
    }
    if (integers && parameter.min && parameter.max) {
      one += fmt::format(" from {} to {}", *parameter.min, *parameter.max);
    } else if (integers && parameter.min) {
      one += fmt::format(", at least {}", *parameter.min);
    }
    text += (text.empty() ? "" : ", or ") + one;
  }
  return text;
}

std::string ParamsKey(const OperationParams& params) {
  std::string key;
  for (const auto& [name, value] : params.values()) {
    key += name + "=" + std::visit(KeyOfValue(), value) + ";";
  }
  return key;
}

}  // namespace millrace
