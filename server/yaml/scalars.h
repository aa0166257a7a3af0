// Scalars of YAML as the values that they stand for: bools, and numbers without sign '+' and
// leading zeros, which YAML 1.1 would read as octal.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "common/parameters/parameter.h"
#include "server/yaml/yaml_reader.h"

namespace millrace {

/// The value of a node; nullopt if it has another type, or is quoted.
std::optional<bool> ScalarBool(const YamlNode& node);
std::optional<std::int64_t> ScalarInt(const YamlNode& node);
/// The value of an integer in [0, 2^64).
std::optional<std::uint64_t> ScalarSeed(const YamlNode& node);
/// An integer, or a finite number with a point or an exponent.
std::optional<ParamNumber> ScalarNumber(const YamlNode& node);

}  // namespace millrace
