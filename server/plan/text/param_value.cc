#include "server/plan/text/param_value.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json_text.h"
#include "common/base/suggestion.h"
#include "server/plan/text/scalars.h"
#include "server/plan/text/tree_text.h"

namespace millrace {
namespace {

bool Accepts(const Parameter& parameter, ParamType type) {
  return std::find(parameter.types.begin(), parameter.types.end(), type) != parameter.types.end();
}

bool InRange(const Parameter& parameter, std::int64_t value) {
  return (!parameter.min || value >= *parameter.min) && (!parameter.max || value <= *parameter.max);
}

bool IsAllowed(const Parameter& parameter, const std::string& value) {
  if (parameter.allowed.empty()) return !value.empty();
  const auto& allowed = parameter.allowed;
  return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

std::string DescribeInt(const Parameter& parameter) {
  if (parameter.min && parameter.max) {
    return fmt::format("an integer from {} to {}", *parameter.min, *parameter.max);
  }
  if (parameter.min) return fmt::format("an integer of at least {}", *parameter.min);
  if (parameter.max) return fmt::format("an integer of at most {}", *parameter.max);
  return "an integer";
}

std::string DescribeType(const Parameter& parameter, ParamType type) {
  switch (type) {
    case ParamType::kBool:
      return "true or false";
    case ParamType::kInt:
      return DescribeInt(parameter);
    case ParamType::kSeed:
      return fmt::format("an integer from 0 to {}", std::numeric_limits<std::uint64_t>::max());
    case ParamType::kString:
      if (parameter.allowed.empty()) return "a name";
      if (parameter.allowed.size() == 1) return parameter.allowed.front();
      return fmt::format("one of {}", fmt::join(parameter.allowed, ", "));
    case ParamType::kIntList:
      return fmt::format("a list of integers such as [9, 1], each {}", DescribeInt(parameter));
    case ParamType::kStringList:
      return "a list of names such as [a, b]";
    case ParamType::kStringLists:
      return "a list of lists of names such as [[a], [b, c]]";
    case ParamType::kTree:
      return "a map";
  }
  return "a value";
}

/// Reads one value for one parameter. Every function stores the first problem in `error`.
class Reader {
 public:
  explicit Reader(const Parameter& parameter) : parameter_(parameter) {}

  ReadValue Read(const YamlNode& node) {
    ReadValue result;
    const bool other_types = parameter_.types.size() > 1;
    if (Accepts(parameter_, ParamType::kTree) &&
        (node.kind == YamlNode::Kind::kMap || !other_types)) {
      result.value = Tree(node, result.below);
    } else if (node.kind == YamlNode::Kind::kList) {
      result.value = List(node);
    } else if (const auto boolean = ScalarBool(node);
               boolean && Accepts(parameter_, ParamType::kBool)) {
      result.value = *boolean;
    } else if (const auto seed = ScalarSeed(node); seed && Accepts(parameter_, ParamType::kSeed)) {
      result.value = static_cast<std::int64_t>(*seed);
    } else if (const auto number = ScalarInt(node);
               number && Accepts(parameter_, ParamType::kInt)) {
      if (!InRange(parameter_, *number)) Fail(node);
      if (Accepts(parameter_, ParamType::kIntList)) {
        result.value = std::vector<std::int64_t>{*number};
      } else {
        result.value = *number;
      }
    } else if (Accepts(parameter_, ParamType::kString)) {
      result.value = String(node);
    } else {
      Fail(node);
    }
    result.error = std::move(error_);
    return result;
  }

 private:
  void Fail(const YamlNode& node) {
    if (error_) return;
    std::string hint;
    if (node.kind == YamlNode::Kind::kScalar) {
      const bool digits = node.scalar.find_first_not_of("0123456789") == std::string::npos;
      const bool seed = Accepts(parameter_, ParamType::kSeed);  // is told what is most
      hint = digits && !seed && node.scalar.size() > 18 && node.scalar.front() != '0'
                 ? fmt::format(", which is more than {}", std::numeric_limits<std::int64_t>::max())
                 : Suggestion(node.scalar, parameter_.allowed);
    }
    error_ = {node.mark, fmt::format("expected {}, got {}{}", DescribeExpected(parameter_),
                                     node.Describe(), hint)};
  }

  std::string String(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kScalar || !IsAllowed(parameter_, node.scalar)) Fail(node);
    return node.scalar;
  }

  ParamValue Tree(const YamlNode& node, std::map<std::string, YamlMark>& below) {
    if (node.kind != YamlNode::Kind::kMap) Fail(node);
    TreeText text = WriteTree(node);
    if (text.error && !error_) error_ = {text.error->mark, text.error->message};
    below = std::move(text.marks);
    return ParamTree{std::move(text.json)};
  }

  ParamValue List(const YamlNode& node) {
    const bool names = Accepts(parameter_, ParamType::kStringList) &&
                       std::any_of(node.items.begin(), node.items.end(),
                                   [](const YamlPtr& item) { return !ScalarInt(*item); });
    if (Accepts(parameter_, ParamType::kIntList) && !names) {
      std::vector<std::int64_t> values;
      for (const YamlPtr& item : node.items) {
        const auto value = ScalarInt(*item);
        if (!value || !InRange(parameter_, *value)) Fail(*item);
        values.push_back(value.value_or(0));
      }
      return Normal(node, std::move(values));
    }
    if (Accepts(parameter_, ParamType::kStringList)) return Strings(node);
    if (Accepts(parameter_, ParamType::kStringLists)) {
      std::vector<std::vector<std::string>> values;
      for (const YamlPtr& item : node.items) {
        if (item->kind != YamlNode::Kind::kList) Fail(*item);
        values.push_back(Strings(*item));
      }
      if (values.empty()) Fail(node);
      return values;
    }
    Fail(node);
    return {};
  }

  std::vector<std::string> Strings(const YamlNode& node) {
    std::vector<std::string> values;
    for (const YamlPtr& item : node.items) values.push_back(String(*item));
    return Normal(node, std::move(values));
  }

  template <class T>
  std::vector<T> Normal(const YamlNode& node, std::vector<T> values) {
    const auto* empty_default = std::get_if<std::vector<T>>(&parameter_.default_value);
    if (values.empty() && (empty_default == nullptr || !empty_default->empty())) Fail(node);
    if (parameter_.unordered) {
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
    }
    return values;
  }

  const Parameter& parameter_;
  std::optional<ValueError> error_;
};

std::string QuotedList(const std::vector<std::string>& values) {
  std::vector<std::string> quoted;
  for (const std::string& value : values) quoted.push_back(JsonText(value));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

}  // namespace

ReadValue ReadParamValue(const Parameter& parameter, const YamlNode& node) {
  return Reader(parameter).Read(node);
}

std::string DescribeExpected(const Parameter& parameter) {
  std::vector<std::string> types;
  for (const ParamType type : parameter.types) types.push_back(DescribeType(parameter, type));
  return fmt::format("{}", fmt::join(types, ", or "));
}

std::string FormatParamValue(const Parameter& parameter, const ParamValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return "null";
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    return Accepts(parameter, ParamType::kSeed)
               ? std::to_string(static_cast<std::uint64_t>(*number))
               : std::to_string(*number);
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return parameter.allowed.empty() ? JsonText(*text) : *text;
  }
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value)) {
    return fmt::format("[{}]", fmt::join(*numbers, ", "));
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) return QuotedList(*texts);
  if (const auto* tree = std::get_if<ParamTree>(&value)) return tree->json;
  std::vector<std::string> lists;
  for (const auto& texts : std::get<std::vector<std::vector<std::string>>>(value)) {
    lists.push_back(QuotedList(texts));
  }
  return fmt::format("[{}]", fmt::join(lists, ", "));
}

}  // namespace millrace
