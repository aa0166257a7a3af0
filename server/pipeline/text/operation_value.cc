#include "server/pipeline/text/operation_value.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json_text.h"
#include "common/base/parse_number.h"

namespace millrace {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Whether the text is a number such as 1, -0.5, .5, 1e-3: without sign '+' and leading zeros.
bool LooksLikeNumber(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at - begin;
  };
  const std::size_t whole = digits();
  if (whole > 1 && text[at - whole] == '0') return false;
  std::size_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    fraction = digits();
  }
  if (whole + fraction == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

std::optional<std::int64_t> OperationInt(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar || node.quoted) return std::nullopt;
  const auto value = ParseNumber<std::int64_t>(node.scalar, {}, LeadingZeros::kRefused);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

std::optional<ParamNumber> OperationNumber(const YamlNode& node) {
  if (const auto integer = OperationInt(node)) return *integer;
  if (node.kind != YamlNode::Kind::kScalar || node.quoted || !LooksLikeNumber(node.scalar)) {
    return std::nullopt;
  }
  // An integer beyond 64 bits would become another number.
  if (node.scalar.find_first_of(".eE") == std::string::npos) return std::nullopt;
  double value = 0;
  const char* const end = node.scalar.data() + node.scalar.size();
  if (std::from_chars(node.scalar.data(), end, value).ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<bool> OperationBool(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar || node.quoted) return std::nullopt;
  if (node.scalar == "true" || node.scalar == "True" || node.scalar == "TRUE") return true;
  if (node.scalar == "false" || node.scalar == "False" || node.scalar == "FALSE") return false;
  return std::nullopt;
}

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
      if (const auto value = OperationBool(node)) return *value;
    }
    if (const auto value = OperationNumber(node)) {
      const bool whole = std::holds_alternative<std::int64_t>(*value);
      if (Takes(OperationValueType::kNumber) || (whole && Takes(OperationValueType::kInt))) {
        return std::visit([](auto number) { return OperationValue(number); }, *value);
      }
    }
    if (!Takes(OperationValueType::kText)) Fail(node);
    return node.scalar;
  }

  OperationValue List(const YamlNode& node) {
    const bool any = Takes(OperationValueType::kNumbers);
    if (!any && !Takes(OperationValueType::kInts)) Fail(node);
    std::vector<ParamNumber> numbers;
    std::vector<std::int64_t> integers;
    for (const YamlPtr& item : node.items) {
      const auto number = OperationNumber(*item);
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
    if (!Takes(OperationValueType::kNamedNumbers)) Fail(node);
    std::map<std::string, ParamNumber> named;
    for (const YamlEntry& entry : node.entries) {
      if (!IsTensorWord(entry.key)) {
        if (!error_) {
          error_ = {entry.mark,
                    fmt::format("a name is one word of at most {} letters, digits and _",
                                kMaxTensorName)};
        }
        break;
      }
      const auto number = OperationNumber(*entry.value);
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

std::string FormatNumber(const ParamNumber& number) {
  if (const auto* integer = std::get_if<std::int64_t>(&number)) return fmt::format("{}", *integer);
  std::string text = fmt::format("{}", std::get<double>(number));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

struct FormatValue {
  const OperationParameter& parameter;

  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return FormatNumber(value); }
  std::string operator()(double value) const { return FormatNumber(value); }
  std::string operator()(const std::string& value) const {
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
};

}  // namespace

bool IsTensorWord(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && text.size() <= kMaxTensorName && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return is_letter(c) || IsDigit(c); });
}

bool IsTensorName(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kScalar && !node.scalar.empty() &&
         node.scalar.size() <= kMaxTensorName;
}

std::string DottedName(std::string_view name) {
  std::string dotted(name);
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  return dotted;
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
