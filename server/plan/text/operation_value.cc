#include "server/plan/text/operation_value.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json_text.h"
#include "common/base/suggestion.h"
#include "common/tensor/tensor_word.h"
#include "server/plan/text/scalars.h"
#include "server/plan/text/tree_text.h"

namespace millrace {
namespace {

/// Reads one value. The first problem is stored in `error`.
class OperationReader {
 public:
  explicit OperationReader(const OperationParameter& parameter) : parameter_(parameter) {}

  ReadOperation Read(const YamlNode& node) {
    ReadOperation read;
    switch (node.kind) {
      case YamlNode::Kind::kNull:
        Fail(node);
        break;
      case YamlNode::Kind::kScalar:
        read.value = Scalar(node);
        break;
      case YamlNode::Kind::kList:
        read.value = List(node);
        break;
      case YamlNode::Kind::kMap:
        read.value = Named(node);
        break;
    }
    if (!error_) {
      // Ranges, counts and allowed words.
      const OperationParams given({{parameter_.name, read.value}});
      if (!NormalParams({&parameter_, 1}, given).ok()) Fail(node);
    }
    read.error = std::move(error_);
    return read;
  }

 private:
  bool Takes(OperationValueType type) const {
    return std::find(parameter_.types.begin(), parameter_.types.end(), type) !=
           parameter_.types.end();
  }

  void Fail(const YamlNode& node) {
    if (error_) return;
    const std::string hint = node.kind == YamlNode::Kind::kScalar
                                 ? Suggestion(node.scalar, parameter_.allowed)
                                 : std::string();
    error_ = {node.mark, fmt::format("expected {}, got {}{}", DescribeAccepted(parameter_),
                                     node.Describe(), hint)};
  }

  OperationValue Scalar(const YamlNode& node) {
    if (Takes(OperationValueType::kBool)) {
      if (const auto value = ScalarBool(node)) return *value;
    }
    if (const auto value = ScalarNumber(node)) {
      const bool whole = std::holds_alternative<std::int64_t>(*value);
      if (Takes(OperationValueType::kNumber) || (whole && Takes(OperationValueType::kInt))) {
        return std::visit([](auto number) { return OperationValue(number); }, *value);
      }
    }
    if (!Takes(OperationValueType::kText)) Fail(node);
    return node.scalar;
  }

  OperationValue Texts(const YamlNode& node) {
    std::vector<std::string> texts;
    for (const YamlPtr& item : node.items) {
      if (item->kind != YamlNode::Kind::kScalar || item->scalar.empty()) {
        Fail(*item);
        break;
      }
      texts.push_back(item->scalar);
    }
    return texts;
  }

  OperationValue NamedTexts(const YamlNode& node) {
    std::map<std::string, std::string> named;
    for (const YamlEntry& entry : node.entries) {
      CheckName(entry);
      const YamlNode& value = *entry.value;
      if ((value.kind != YamlNode::Kind::kScalar || value.scalar.empty()) && !error_) {
        error_ = {value.mark,
                  fmt::format("{}: expected a text, got {}", entry.key, value.Describe())};
      }
      named.emplace(entry.key, value.scalar);
    }
    return named;
  }

  OperationValue Tree(const YamlNode& node) {
    TreeText tree = WriteTree(node);
    if (tree.error && !error_) error_ = std::move(tree.error);
    return std::move(tree.json);
  }

  void CheckName(const YamlEntry& entry) {
    if (IsTensorWord(entry.key) || error_) return;
    error_ = {entry.mark, fmt::format("a name is one word of at most {} letters, digits and _",
                                      kMaxTensorName)};
  }

  OperationValue List(const YamlNode& node) {
    if (Takes(OperationValueType::kTexts)) return Texts(node);
    const bool any = Takes(OperationValueType::kNumbers);
    if (!any && !Takes(OperationValueType::kInts)) Fail(node);
    std::vector<ParamNumber> numbers;
    std::vector<std::int64_t> integers;
    for (const YamlPtr& item : node.items) {
      const auto number = ScalarNumber(*item);
      const auto* const integer = number ? std::get_if<std::int64_t>(&*number) : nullptr;
      if (!number || (!any && integer == nullptr)) {
        Fail(*item);
        return {};
      }
      if (integer != nullptr) integers.push_back(*integer);
      numbers.push_back(*number);
    }
    if (integers.size() == numbers.size()) return integers;
    return numbers;
  }

  OperationValue Named(const YamlNode& node) {
    if (Takes(OperationValueType::kTree)) return Tree(node);
    if (Takes(OperationValueType::kNamedTexts)) return NamedTexts(node);
    if (!Takes(OperationValueType::kNamedNumbers)) Fail(node);
    std::map<std::string, ParamNumber> named;
    for (const YamlEntry& entry : node.entries) {
      CheckName(entry);
      const auto number = ScalarNumber(*entry.value);
      if (!number && !error_) {
        error_ = {entry.value->mark,
                  fmt::format("{}: expected a number, got {}", entry.key, entry.value->Describe())};
      }
      named.emplace(entry.key, number.value_or(ParamNumber(std::int64_t{0})));
    }
    return named;
  }

  const OperationParameter& parameter_;
  std::optional<ValueError> error_;
};

struct FormatValue {
  const OperationParameter& parameter;

  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return FormatNumber(value); }
  std::string operator()(double value) const { return FormatNumber(value); }
  std::string operator()(const std::string& value) const {
    if (parameter.types.front() == OperationValueType::kTree) return value;
    const auto& allowed = parameter.allowed;
    const bool bare = std::find(allowed.begin(), allowed.end(), value) != allowed.end();
    return bare ? value : JsonText(value);
  }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  std::string operator()(const std::vector<ParamNumber>& values) const {
    std::vector<std::string> texts;
    for (const ParamNumber& value : values) texts.push_back(FormatNumber(value));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  std::string operator()(const std::map<std::string, ParamNumber>& values) const {
    std::vector<std::string> texts;
    for (const auto& [name, value] : values) {
      texts.push_back(fmt::format("{}: {}", name, FormatNumber(value)));
    }
    return fmt::format("{{{}}}", fmt::join(texts, ", "));
  }
  std::string operator()(const std::vector<std::string>& values) const { return JsonList(values); }
  std::string operator()(const std::map<std::string, std::string>& values) const {
    std::vector<std::string> texts;
    for (const auto& [name, value] : values) {
      texts.push_back(fmt::format("{}: {}", name, JsonText(value)));
    }
    return fmt::format("{{{}}}", fmt::join(texts, ", "));
  }
};

}  // namespace

bool IsTensorName(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kScalar && !node.scalar.empty() &&
         node.scalar.size() <= kMaxTensorName;
}

std::string ShownName(std::string_view name) {
  constexpr std::size_t kShown = 60;
  if (name.size() <= kShown) return std::string(name);
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return std::string(name.substr(0, end)) + "…";
}

const OperationParameter* FindOperationParameter(std::span<const OperationParameter> parameters,
                                                 std::string_view name) {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(),
                   [&](const OperationParameter& parameter) { return parameter.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

std::string UnknownParameter(std::string_view whole, std::string_view key,
                             const std::vector<std::string>& known) {
  return fmt::format("unknown key '{}.{}'{}; expected one of {}", whole, ShownName(key),
                     Suggestion(key, known), fmt::join(known, ", "));
}

ReadOperation ReadOperationValue(const OperationParameter& parameter, const YamlNode& node) {
  return OperationReader(parameter).Read(node);
}

std::string FormatOperationValue(const OperationParameter& parameter, const OperationValue& value) {
  return std::visit(FormatValue{parameter}, value);
}

}  // namespace millrace
