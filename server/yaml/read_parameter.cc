#include "server/yaml/read_parameter.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/suggestion.h"
#include "common/tensor/tensor_word.h"
#include "server/yaml/scalars.h"

namespace millrace {
namespace {

template <class T>
void SortUnique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// Reads one value for one parameter. Every function stores the first problem in `error`.
class ParameterReader {
 public:
  explicit ParameterReader(const Parameter& parameter) : parameter_(parameter) {}

  ReadValue Read(const YamlNode& node) {
    ReadValue result;
    switch (node.kind) {
      case YamlNode::Kind::kNull:
        Fail(node);
        break;
      case YamlNode::Kind::kScalar:
        result.value = Scalar(node);
        break;
      case YamlNode::Kind::kList:
        result.value = List(node);
        break;
      case YamlNode::Kind::kMap:
        result.value = Map(node, result.below);
        break;
    }
    if (!error_ && !IsTaken(parameter_, result.value)) Fail(node);
    result.error = std::move(error_);
    return result;
  }

 private:
  bool Takes(ParamType type) const { return parameter_.Takes(type); }

  void Fail(const YamlNode& node) {
    if (error_) return;
    std::string hint;
    if (node.kind == YamlNode::Kind::kScalar) {
      const bool digits = node.scalar.find_first_not_of("0123456789") == std::string::npos;
      hint =
          Takes(ParamType::kInt) && digits && node.scalar.size() > 18 && node.scalar.front() != '0'
              ? fmt::format(", which is more than {}", std::numeric_limits<std::int64_t>::max())
              : Suggestion(node.scalar, parameter_.allowed);
    }
    Fail(node.mark,
         fmt::format("expected {}, got {}{}", Expected(parameter_), node.Describe(), hint));
  }

  void Fail(const YamlMark& mark, std::string message) {
    if (!error_) error_ = {mark, std::move(message)};
  }

  ParamValue Scalar(const YamlNode& node) {
    if (Takes(ParamType::kBool)) {
      if (const auto value = ScalarBool(node)) return *value;
    }
    if (Takes(ParamType::kSeed)) {
      if (const auto seed = ScalarSeed(node)) return static_cast<std::int64_t>(*seed);
    }
    if (const auto number = ScalarNumber(node)) {
      const auto* const integer = std::get_if<std::int64_t>(&*number);
      if (integer != nullptr && parameter_.one_is_list) return std::vector{*integer};
      if (integer != nullptr && (Takes(ParamType::kInt) || Takes(ParamType::kNumber))) {
        return *integer;
      }
      if (integer == nullptr && Takes(ParamType::kNumber)) return std::get<double>(*number);
    }
    if (!Takes(ParamType::kText)) Fail(node);
    return node.scalar;
  }

  ParamValue List(const YamlNode& node) {
    const bool numbers = Takes(ParamType::kInts) || Takes(ParamType::kNumbers);
    const bool names = Takes(ParamType::kTexts) &&
                       std::any_of(node.items.begin(), node.items.end(),
                                   [](const YamlPtr& item) { return !ScalarInt(*item); });
    if (numbers && !names) return Numbers(node);
    if (Takes(ParamType::kTexts)) return Texts(node);
    if (Takes(ParamType::kTextLists)) {
      std::vector<std::vector<std::string>> lists;
      for (const YamlPtr& item : node.items) {
        if (item->kind != YamlNode::Kind::kList || item->items.empty()) Fail(*item);
        lists.push_back(Texts(*item));
      }
      return lists;
    }
    Fail(node);
    return {};
  }

  ParamValue Numbers(const YamlNode& node) {
    std::vector<ParamNumber> numbers;
    std::vector<std::int64_t> integers;
    for (const YamlPtr& item : node.items) {
      const auto number = ScalarNumber(*item);
      const auto* const integer = number ? std::get_if<std::int64_t>(&*number) : nullptr;
      const bool fits = integer == nullptr ? number && Takes(ParamType::kNumbers)
                                           : *integer >= parameter_.min.value_or(*integer) &&
                                                 *integer <= parameter_.max.value_or(*integer);
      if (!fits) {
        Fail(*item);
        return {};
      }
      if (integer != nullptr) integers.push_back(*integer);
      numbers.push_back(*number);
    }
    if (integers.size() != numbers.size()) return numbers;
    if (parameter_.unordered) SortUnique(integers);
    return integers;
  }

  std::vector<std::string> Texts(const YamlNode& node) {
    const Parameter one = {.name = {}, .types = {ParamType::kText}, .allowed = parameter_.allowed};
    std::vector<std::string> texts;
    for (const YamlPtr& item : node.items) {
      if (item->kind != YamlNode::Kind::kScalar || !IsTaken(one, item->scalar)) Fail(*item);
      texts.push_back(item->scalar);
    }
    if (parameter_.unordered) SortUnique(texts);
    return texts;
  }

  ParamValue Map(const YamlNode& node, std::map<std::string, YamlMark>& below) {
    if (Takes(ParamType::kTree)) {
      TreeText tree = WriteTree(node);
      if (tree.error) Fail(tree.error->mark, std::move(tree.error->message));
      below = std::move(tree.marks);
      return ParamTree{std::move(tree.json)};
    }
    if (Takes(ParamType::kNamedTexts)) {
      return Named<std::string>(node, "a text", [](const YamlNode& value) {
        const bool is_text = value.kind == YamlNode::Kind::kScalar && !value.scalar.empty();
        return is_text ? std::optional(value.scalar) : std::nullopt;
      });
    }
    if (!Takes(ParamType::kNamedNumbers)) Fail(node);
    return Named<ParamNumber>(node, "a number", ScalarNumber);
  }

  /// Names and their values. `read` gives no value where the node has none.
  template <class T, class Read>
  std::map<std::string, T> Named(const YamlNode& node, const char* expected, Read read) {
    std::map<std::string, T> named;
    for (const YamlEntry& entry : node.entries) {
      if (!IsTensorWord(entry.key)) {
        Fail(entry.mark,
             fmt::format("a name is one word of at most {} letters, digits and _", kMaxTensorName));
      }
      auto value = read(*entry.value);
      if (!value) {
        Fail(entry.value->mark,
             fmt::format("{}: expected {}, got {}", entry.key, expected, entry.value->Describe()));
        value.emplace();
      }
      named.emplace(entry.key, *std::move(value));
    }
    return named;
  }

  const Parameter& parameter_;
  std::optional<ValueError> error_;
};

}  // namespace

ReadValue ReadParameter(const Parameter& parameter, const YamlNode& node) {
  return ParameterReader(parameter).Read(node);
}

}  // namespace millrace
