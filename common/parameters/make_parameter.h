// Makes the usual parameters, for tables with a line or two for each.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/parameters/parameter.h"

namespace millrace {

/// Any text, or one that passes the check.
inline Parameter TextParameter(std::string name, std::string help,
                               std::function<Status(const ParamValue&)> check = {}) {
  return {.name = std::move(name),
          .types = {ParamType::kText},
          .help = std::move(help),
          .may_be_empty = true,
          .check = std::move(check)};
}

inline Parameter WordParameter(std::string name, std::string help,
                               std::vector<std::string> allowed) {
  return {.name = std::move(name),
          .types = {ParamType::kText},
          .help = std::move(help),
          .allowed = std::move(allowed)};
}

inline Parameter BoolParameter(std::string name, std::string help) {
  return {.name = std::move(name), .types = {ParamType::kBool}, .help = std::move(help)};
}

/// A number with bounds: kInt, kBytes or kSeconds.
inline Parameter NumberParameter(ParamType type, std::string name, std::string help,
                                 std::int64_t min = 0,
                                 std::optional<std::int64_t> max = std::nullopt) {
  return {
      .name = std::move(name), .types = {type}, .help = std::move(help), .min = min, .max = max};
}

inline Parameter IntParameter(std::string name, std::string help, std::int64_t min = 0,
                              std::optional<std::int64_t> max = std::nullopt) {
  return NumberParameter(ParamType::kInt, std::move(name), std::move(help), min, max);
}

inline Parameter BytesParameter(std::string name, std::string help, std::int64_t min = 0) {
  return NumberParameter(ParamType::kBytes, std::move(name), std::move(help), min);
}

inline Parameter SecondsParameter(std::string name, std::string help,
                                  std::optional<std::int64_t> max = std::nullopt) {
  return NumberParameter(ParamType::kSeconds, std::move(name), std::move(help), 0, max);
}

/// The parameter with a default.
inline Parameter WithDefault(Parameter parameter, ParamValue value) {
  parameter.default_value = std::move(value);
  return parameter;
}

}  // namespace millrace
