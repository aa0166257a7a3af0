#include "common/parameters/params.h"

#include <bit>

#include <fmt/core.h>

namespace millrace {
namespace {

template <class T>
T ValueOr(const ParamValue& value) {
  const T* const set = std::get_if<T>(&value);
  return set == nullptr ? T() : *set;
}

// Doubles are written by their bits, so that no two of them meet.
std::string KeyOf(const ParamNumber& number) {
  if (const auto* integer = std::get_if<std::int64_t>(&number)) return fmt::format("{}", *integer);
  return fmt::format("f{:x}", std::bit_cast<std::uint64_t>(std::get<double>(number)));
}

struct KeyOfValue {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return KeyOf(value); }
  std::string operator()(double value) const { return KeyOf(value); }
  std::string operator()(const ParamNumber& value) const { return KeyOf(value); }
  std::string operator()(const std::string& value) const {
    return fmt::format("'{}:{}'", value.size(), value);
  }
  std::string operator()(const ParamTree& tree) const { return (*this)(tree.json); }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    std::string key = "[";
    for (const T& value : values) key += (*this)(value) + ",";
    return key + "]";
  }
  template <class T>
  std::string operator()(const std::map<std::string, T>& named) const {
    std::string key = "{";
    for (const auto& [name, value] : named) key += name + ":" + (*this)(value) + ",";
    return key + "}";
  }
};

}  // namespace

const ParamValue& Params::Get(std::string_view name) const {
  static const ParamValue null;
  const auto found = values_.find(std::string(name));
  return found == values_.end() ? null : found->second;
}

std::vector<std::int64_t> Params::GetInts(std::string_view name) const {
  const ParamValue& value = Get(name);
  if (const auto* one = std::get_if<std::int64_t>(&value)) return {*one};
  return std::get<std::vector<std::int64_t>>(value);
}

std::vector<ParamNumber> Params::GetNumbers(std::string_view name) const {
  const ParamValue& value = Get(name);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return {ParamNumber(*integer)};
  if (const auto* real = std::get_if<double>(&value)) return {ParamNumber(*real)};
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    return {integers->begin(), integers->end()};
  }
  return std::get<std::vector<ParamNumber>>(value);
}

std::vector<std::string> Params::GetTexts(std::string_view name) const {
  return ValueOr<std::vector<std::string>>(Get(name));
}

std::map<std::string, ParamNumber> Params::GetNamedNumbers(std::string_view name) const {
  return ValueOr<std::map<std::string, ParamNumber>>(Get(name));
}

std::map<std::string, std::string> Params::GetNamedTexts(std::string_view name) const {
  return ValueOr<std::map<std::string, std::string>>(Get(name));
}

Result<Params> WithDefaults(std::span<const Parameter> parameters, const Params& given) {
  std::map<std::string, ParamValue> values = given.values();
  for (const auto& [name, value] : values) {
    const Parameter* const parameter = FindParameter(parameters, name);
    if (parameter == nullptr) return InvalidArgument(name + ": there is no such parameter");
    if (IsTaken(*parameter, value)) continue;
    return InvalidArgument(fmt::format("{}: expected {}", name, Expected(*parameter)));
  }
  for (const Parameter& parameter : parameters) {
    if (values.contains(parameter.name)) continue;
    if (parameter.required) {
      return InvalidArgument(
          fmt::format("{}: is missing; expected {}", parameter.name, Expected(parameter)));
    }
    if (parameter.has_default()) values.emplace(parameter.name, parameter.default_value);
  }
  return Params(std::move(values), given.source());
}

std::string ParamsKey(const Params& params) {
  std::string key;
  for (const auto& [name, value] : params.values()) {
    key += name + "=" + std::visit(KeyOfValue(), value) + ";";
  }
  return key;
}

}  // namespace millrace
