// Makes the usual parameters, for tables with a line or two for each.
//
// Pure functions.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/parameters/parameter.h"

namespace millrace {

/// A value of any of the types, of which the first is the usual one. The bounds are for integers.
inline Parameter ParameterOf(std::vector<ParamType> types, std::string name, std::string help,
                             std::optional<std::int64_t> min = std::nullopt,
                             std::optional<std::int64_t> max = std::nullopt) {
  return {.name = std::move(name),
          .types = std::move(types),
          .help = std::move(help),
          .min = min,
          .max = max};
}

/// The parameter with a default.
inline Parameter WithDefault(Parameter parameter, ParamValue value) {
  parameter.default_value = std::move(value);
  return parameter;
}

/// The parameter with the only texts that it takes; of a truth value, with the words for true and
/// false.
inline Parameter WithWords(Parameter parameter, std::vector<std::string> words) {
  parameter.allowed = std::move(words);
  return parameter;
}

/// The parameter with a check of given values beyond types and ranges.
inline Parameter WithCheck(Parameter parameter, std::function<Status(const ParamValue&)> check) {
  parameter.check = std::move(check);
  return parameter;
}

/// The parameter, which must be given.
inline Parameter Required(Parameter parameter) {
  parameter.required = true;
  return parameter;
}

/// The parameter, whose text or list may be empty.
inline Parameter MayBeEmpty(Parameter parameter) {
  parameter.may_be_empty = true;
  return parameter;
}

/// The parameter, in whose list order and repetition have no meaning.
inline Parameter Unordered(Parameter parameter) {
  parameter.unordered = true;
  return parameter;
}

/// The parameter of a stage, which only selects examples.
inline Parameter OnlySelects(Parameter parameter) {
  parameter.in_build = false;
  return parameter;
}

/// A text that is not empty, such as a name or an expression.
inline Parameter NonEmptyTextParameter(std::string name, std::string help) {
  return ParameterOf({ParamType::kText}, std::move(name), std::move(help));
}

/// Any text, or one that passes the check.
inline Parameter TextParameter(std::string name, std::string help,
                               std::function<Status(const ParamValue&)> check = {}) {
  return WithCheck(MayBeEmpty(NonEmptyTextParameter(std::move(name), std::move(help))),
                   std::move(check));
}

/// A list of texts that are not empty, at least one.
inline Parameter TextsParameter(std::string name, std::string help) {
  return ParameterOf({ParamType::kTexts}, std::move(name), std::move(help));
}

/// One of some words.
inline Parameter WordParameter(std::string name, std::string help,
                               std::vector<std::string> allowed) {
  return WithWords(NonEmptyTextParameter(std::move(name), std::move(help)), std::move(allowed));
}

/// One of some words, with a default.
inline Parameter WordParameter(std::string name, std::string usual, std::string help,
                               std::vector<std::string> allowed) {
  return WithDefault(WordParameter(std::move(name), std::move(help), std::move(allowed)),
                     std::move(usual));
}

/// True or false.
inline Parameter BoolParameter(std::string name, std::string help) {
  return ParameterOf({ParamType::kBool}, std::move(name), std::move(help));
}

/// True or false, with a default.
inline Parameter BoolParameter(std::string name, bool usual, std::string help) {
  return WithDefault(BoolParameter(std::move(name), std::move(help)), usual);
}

/// An integer with bounds; nullopt: none.
inline Parameter IntParameter(std::string name, std::string help,
                              std::optional<std::int64_t> min = 0,
                              std::optional<std::int64_t> max = std::nullopt) {
  return ParameterOf({ParamType::kInt}, std::move(name), std::move(help), min, max);
}

/// An integer with a default, and with bounds; nullopt: none.
inline Parameter IntParameter(std::string name, std::integral auto usual, std::string help,
                              std::optional<std::int64_t> min = 0,
                              std::optional<std::int64_t> max = std::nullopt) {
  return WithDefault(IntParameter(std::move(name), std::move(help), min, max),
                     static_cast<std::int64_t>(usual));
}

/// A list of integers, at least one, each with the bounds.
inline Parameter IntsParameter(std::string name, std::string help,
                               std::optional<std::int64_t> min = std::nullopt,
                               std::optional<std::int64_t> max = std::nullopt) {
  return ParameterOf({ParamType::kInts}, std::move(name), std::move(help), min, max);
}

/// An integer of [0, 2^64), with a default.
inline Parameter SeedParameter(std::string name, std::uint64_t usual, std::string help) {
  return WithDefault(ParameterOf({ParamType::kSeed}, std::move(name), std::move(help)),
                     static_cast<std::int64_t>(usual));
}

/// A number of bytes.
inline Parameter BytesParameter(std::string name, std::string help, std::int64_t min = 0) {
  return ParameterOf({ParamType::kBytes}, std::move(name), std::move(help), min);
}

/// A number of seconds.
inline Parameter SecondsParameter(std::string name, std::string help,
                                  std::optional<std::int64_t> max = std::nullopt) {
  return ParameterOf({ParamType::kSeconds}, std::move(name), std::move(help), 0, max);
}

}  // namespace millrace
