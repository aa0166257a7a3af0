#include "common/parameters/parameter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json_text.h"
#include "common/base/parse_number.h"
#include "common/base/suggestion.h"

namespace millrace {
namespace {

bool Contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A bound as people write it: bytes in MiB if they are whole MiB.
std::string Bound(const Parameter& parameter, std::int64_t value) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const bool in_mib = parameter.Takes(ParamType::kBytes) && value >= kMiB && value % kMiB == 0;
  return in_mib ? fmt::format("{}MiB", value / kMiB) : fmt::format("{}", value);
}

std::string BoundsOf(const Parameter& parameter) {
  if (parameter.min && parameter.max) {
    return fmt::format(" from {} to {}", Bound(parameter, *parameter.min),
                       Bound(parameter, *parameter.max));
  }
  if (parameter.min) return " of at least " + Bound(parameter, *parameter.min);
  if (parameter.max) return " of at most " + Bound(parameter, *parameter.max);
  return "";
}

std::string ExpectedType(const Parameter& parameter, ParamType type) {
  const std::string count = parameter.count ? fmt::format("{} ", *parameter.count) : "";
  switch (type) {
    case ParamType::kBool:
      return parameter.allowed.empty() ? "true or false"
                                       : fmt::format("{}", fmt::join(parameter.allowed, " or "));
    case ParamType::kInt:
      return "an integer" + BoundsOf(parameter);
    case ParamType::kSeed:
      return fmt::format("an integer from 0 to {}", std::numeric_limits<std::uint64_t>::max());
    case ParamType::kBytes:
      return "a number of bytes" + BoundsOf(parameter);
    case ParamType::kSeconds:
      return "a number of seconds" + BoundsOf(parameter);
    case ParamType::kNumber:
      return "a number";
    case ParamType::kText:
      if (parameter.allowed.empty()) return "a text";
      if (parameter.allowed.size() == 1) return parameter.allowed.front();
      return fmt::format("one of {}", fmt::join(parameter.allowed, ", "));
    case ParamType::kInts: {
      const std::string bounds = BoundsOf(parameter);
      return fmt::format("a list of {}integers such as [9, 1]{}", count,
                         bounds.empty() ? "" : ", each" + bounds);
    }
    case ParamType::kNumbers:
      return fmt::format("a list of {}numbers", count);
    case ParamType::kTexts:
      return fmt::format("a list of {}texts such as [a, b]", count);
    case ParamType::kTextLists:
      return "a list of lists of texts such as [[a], [b, c]]";
    case ParamType::kNamedNumbers:
      return "names and their numbers";
    case ParamType::kNamedTexts:
      return "names and their texts";
    case ParamType::kTree:
      return "a map";
  }
  return "a value";
}

bool IsFinite(const ParamNumber& number) {
  const auto* real = std::get_if<double>(&number);
  return real == nullptr || std::isfinite(*real);
}

bool IsWithin(const Parameter& parameter, std::int64_t value) {
  return value >= parameter.min.value_or(value) && value <= parameter.max.value_or(value);
}

bool IsAllowed(const Parameter& parameter, const std::string& text) {
  if (!parameter.allowed.empty()) return Contains(parameter.allowed, text);
  return parameter.may_be_empty || !text.empty();
}

bool AreAllowed(const Parameter& parameter, const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return IsAllowed(parameter, text); });
}

bool IsLong(const Parameter& parameter, std::size_t items) {
  return items == parameter.count.value_or(items) && (items > 0 || parameter.may_be_empty);
}

/// Whether a value is one of a type. One overload for each alternative of a value.
struct Taken {
  const Parameter& parameter;
  ParamType type;

  bool operator()(std::monostate) const { return false; }
  bool operator()(bool) const { return type == ParamType::kBool; }
  bool operator()(std::int64_t value) const {
    if (type == ParamType::kInt || type == ParamType::kBytes) return IsWithin(parameter, value);
    return type == ParamType::kSeed || type == ParamType::kNumber;
  }
  bool operator()(double value) const {
    if (type == ParamType::kNumber) return std::isfinite(value);
    return type == ParamType::kSeconds && value >= static_cast<double>(parameter.min.value_or(0)) &&
           (!parameter.max || value <= static_cast<double>(*parameter.max));
  }
  bool operator()(const std::string& value) const {
    return type == ParamType::kText && IsAllowed(parameter, value);
  }
  bool operator()(const std::vector<std::int64_t>& values) const {
    if (type == ParamType::kNumbers) return IsLong(parameter, values.size());
    return type == ParamType::kInts && IsLong(parameter, values.size()) &&
           std::all_of(values.begin(), values.end(),
                       [&](std::int64_t value) { return IsWithin(parameter, value); });
  }
  bool operator()(const std::vector<ParamNumber>& values) const {
    return type == ParamType::kNumbers && IsLong(parameter, values.size()) &&
           std::all_of(values.begin(), values.end(), IsFinite);
  }
  bool operator()(const std::vector<std::string>& values) const {
    return type == ParamType::kTexts && IsLong(parameter, values.size()) &&
           AreAllowed(parameter, values);
  }
  bool operator()(const std::vector<std::vector<std::string>>& lists) const {
    return type == ParamType::kTextLists && IsLong(parameter, lists.size()) &&
           std::all_of(lists.begin(), lists.end(), [&](const auto& values) {
             return !values.empty() && AreAllowed(parameter, values);
           });
  }
  bool operator()(const std::map<std::string, ParamNumber>& named) const {
    return type == ParamType::kNamedNumbers &&
           std::all_of(named.begin(), named.end(),
                       [](const auto& entry) { return IsFinite(entry.second); });
  }
  bool operator()(const std::map<std::string, std::string>& named) const {
    return type == ParamType::kNamedTexts && !named.empty();
  }
  bool operator()(const ParamTree&) const { return type == ParamType::kTree; }
};

/// A value as YAML. One overload for each alternative of a value.
struct Formatted {
  const Parameter& parameter;

  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool value) const {
    if (!parameter.allowed.empty()) return parameter.allowed.at(value ? 0 : 1);
    return value ? "true" : "false";
  }
  std::string operator()(std::int64_t value) const {
    return parameter.Takes(ParamType::kSeed) ? std::to_string(static_cast<std::uint64_t>(value))
                                             : std::to_string(value);
  }
  std::string operator()(double value) const { return FormatNumber(value); }
  std::string operator()(const std::string& value) const {
    return Contains(parameter.allowed, value) ? value : JsonText(value);
  }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  std::string operator()(const std::vector<std::string>& values) const { return JsonList(values); }
  std::string operator()(const std::vector<ParamNumber>& values) const {
    return List(values, FormatNumber, "[{}]");
  }
  std::string operator()(const std::vector<std::vector<std::string>>& lists) const {
    return List(lists, JsonList, "[{}]");
  }
  std::string operator()(const std::map<std::string, ParamNumber>& named) const {
    return List(
        named,
        [](const auto& entry) {
          return fmt::format("{}: {}", entry.first, FormatNumber(entry.second));
        },
        "{{{}}}");
  }
  std::string operator()(const std::map<std::string, std::string>& named) const {
    return List(
        named,
        [](const auto& entry) {
          return fmt::format("{}: {}", entry.first, JsonText(entry.second));
        },
        "{{{}}}");
  }
  std::string operator()(const ParamTree& tree) const { return tree.json; }

  template <class Values, class Format>
  static std::string List(const Values& values, Format format, const char* brackets) {
    std::vector<std::string> texts;
    for (const auto& value : values) texts.push_back(format(value));
    return fmt::format(fmt::runtime(brackets), fmt::join(texts, ", "));
  }
};

/// The value of a text that is no number of its own type.
Result<ParamValue> ReadWord(const Parameter& parameter, const std::string& text) {
  switch (parameter.types.front()) {
    case ParamType::kBool: {
      const std::string yes = parameter.allowed.empty() ? "true" : parameter.allowed.at(0);
      const std::string no = parameter.allowed.empty() ? "false" : parameter.allowed.at(1);
      if (text == yes || text == no) return ParamValue(text == yes);
      break;
    }
    case ParamType::kBytes: {
      if (text == "0") return ParamValue(std::int64_t{0});
      MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseBytes(text));
      return ParamValue(static_cast<std::int64_t>(bytes));
    }
    case ParamType::kSeed:
      if (const auto seed = ParseNumber<std::uint64_t>(text); seed.ok()) {
        return ParamValue(static_cast<std::int64_t>(*seed));
      }
      break;
    case ParamType::kSeconds:
      if (const auto seconds = ParseDecimal(text); seconds.ok()) return ParamValue(*seconds);
      break;
    default:
      if (const auto number = ParseNumber<std::int64_t>(text);
          number.ok() && parameter.Takes(ParamType::kInt)) {
        return ParamValue(*number);
      }
      return ParamValue(text);
  }
  return ParamValue();
}

}  // namespace

bool Parameter::Takes(ParamType type) const {
  return std::find(types.begin(), types.end(), type) != types.end();
}

const ParamValue& Parameter::DefaultFor(std::string_view source,
                                        const std::map<std::string, ParamValue>& values) const {
  if (default_beside) {
    const auto other = values.find(default_beside->parameter);
    if (other != values.end() && other->second == default_beside->value) {
      return default_beside->default_value;
    }
  }
  const auto found = default_of_source.find(source);
  return found == default_of_source.end() ? default_value : found->second;
}

const Parameter* FindParameter(std::span<const Parameter> parameters, std::string_view name) {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const Parameter& one) { return one.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

std::string Expected(const Parameter& parameter) {
  std::vector<std::string> types;
  for (const ParamType type : parameter.types) types.push_back(ExpectedType(parameter, type));
  return fmt::format("{}", fmt::join(types, ", or "));
}

bool IsTaken(const Parameter& parameter, const ParamValue& value) {
  return std::any_of(parameter.types.begin(), parameter.types.end(), [&](ParamType type) {
    return std::visit(Taken{parameter, type}, value);
  });
}

Result<ParamValue> ReadText(const Parameter& parameter, const std::string& text) {
  MILLRACE_ASSIGN_OR_RETURN(ParamValue value, ReadWord(parameter, text));
  if (!IsTaken(parameter, value)) {
    return InvalidArgument(fmt::format("expected {}, got '{}'{}", Expected(parameter), text,
                                       Suggestion(text, parameter.allowed)));
  }
  if (parameter.check) MILLRACE_RETURN_IF_ERROR(parameter.check(value));
  return value;
}

std::string PlainText(const Parameter& parameter, const ParamValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* seconds = std::get_if<double>(&value)) return fmt::format("{}", *seconds);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    return fmt::format("{}", fmt::join(*texts, ","));
  }
  return FormatParamValue(parameter, value);
}

std::string FormatParamValue(const Parameter& parameter, const ParamValue& value) {
  return std::visit(Formatted{parameter}, value);
}

std::string FormatNumber(const ParamNumber& number) {
  if (const auto* integer = std::get_if<std::int64_t>(&number)) return fmt::format("{}", *integer);
  std::string text = fmt::format("{}", std::get<double>(number));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace millrace
